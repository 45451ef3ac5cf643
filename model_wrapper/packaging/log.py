"""Logs the server with a model to MLflow, and registers it."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models.model import ModelInfo

from app.errors import InvalidRequest
from model_wrapper.model_config import ARTIFACT, INTERFACE, settings_of
from model_wrapper.packaging import server_folder
from model_wrapper.packaging.code import stage_code
from model_wrapper.packaging.interfaces import INTERFACES
from model_wrapper.packaging.weights import Weights, folder_size
from model_wrapper.requirements import for_model


@dataclass(frozen=True)
class Order:
    """What to log."""

    weights: Weights
    engine: str
    route: str = "pyfunc"
    """Or ``entrypoint``, which takes one interface and task only (``server_folder.py``)."""
    interface: str = "chat-agent"
    task: str | None = None
    name: str = "chat"
    config: dict[str, Any] = field(default_factory=dict)
    register: str | None = None
    await_registration: int = 3600
    alias: str | None = None
    resources: str | None = None


@dataclass(frozen=True)
class Logged:
    """What came of it."""

    run_id: str
    model_uri: str
    size: int
    """Bytes of weights and code."""
    version: str | None = None
    """In the registry."""


# Databricks cuts a request off after 297 s; a little earlier, our own error says why.
_REQUEST_TIMEOUT = 290


def model_config(order: Order) -> dict[str, Any]:
    """The configuration that is logged with the model.

    Raises:
        InvalidRequest: a key is unknown or its value is no good, or the weights' folder has the
            name of the server's.
    """
    config: dict[str, Any] = {INTERFACE: order.interface}
    if order.engine == "cpu":
        config["engine_device"] = "cpu"
    if order.weights.reference:
        config["model"] = order.weights.reference
    server = order.config.get("server")
    if not isinstance(server, dict) or "request_timeout" not in server:
        config["request_timeout"] = _REQUEST_TIMEOUT
    config |= order.config
    settings_of(config, artifacts(order))
    names = [Path(path).name for path in artifacts(order).values()]
    if order.route == "entrypoint" and server_folder.NAME in names:
        raise InvalidRequest(
            f"The folder of weights can't be named '{server_folder.NAME}': the server's code will "
            "lie beside it under that name. Rename it."
        )
    return config


def artifacts(order: Order) -> dict[str, str]:
    """The folders to copy, by the names under which ``load_context`` finds them."""
    return {ARTIFACT: str(order.weights.folder)} if order.weights.folder else {}


def log(order: Order) -> Logged:
    """Log the model in a run of its own, or in the active one."""
    interface = INTERFACES[order.interface]
    config = model_config(order)
    with tempfile.TemporaryDirectory() as staging:
        code, beside = Path(staging, "code"), Path(staging, "artifacts")
        code.mkdir()
        beside.mkdir()
        code_paths = stage_code(code, order.engine)
        copied = artifacts(order)
        metadata = {
            "task": order.task or interface.task,
            "interface": order.interface,
            "engine": order.engine,
        }
        if order.route == "entrypoint":
            server = server_folder.stage_server(beside, order.engine, config, copied)
            copied |= {server_folder.NAME: str(server)}
            metadata["entrypoint"] = server_folder.ENTRYPOINT
        size = folder_size(Path(staging)) + order.weights.size
        active = mlflow.active_run()
        with mlflow.start_run(run_id=active.info.run_id if active else None, nested=False) as run:
            info = mlflow.pyfunc.log_model(
                **_named(order.name),
                python_model=str(code / "model_wrapper" / "interfaces" / interface.file),
                code_paths=code_paths,
                artifacts=copied or None,
                model_config=config,
                pip_requirements=for_model(order.engine),
                input_example=interface.input_example,
                metadata=metadata,
                resources=order.resources,
                registered_model_name=order.register,
                await_registration_for=order.await_registration,
            )
    version = _registered_version(info)
    if order.register and order.alias and version:
        client = mlflow.MlflowClient()
        client.set_registered_model_alias(order.register, order.alias, version)
    return Logged(run.info.run_id, info.model_uri, size, version)


def _named(name: str) -> dict[str, str]:
    """MLflow 3 renamed the argument."""
    return {"artifact_path" if mlflow.__version__.startswith("2.") else "name": name}


def _registered_version(info: ModelInfo) -> str | None:
    version = getattr(info, "registered_model_version", None)
    return None if version is None else str(version)
