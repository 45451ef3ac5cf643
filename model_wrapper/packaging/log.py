"""Logs the server with a model to MLflow, and registers it."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models.model import ModelInfo

from model_wrapper.model_config import ARTIFACT, INTERFACE, settings_of
from model_wrapper.packaging.code import stage_code
from model_wrapper.packaging.interfaces import INTERFACES
from model_wrapper.packaging.weights import Weights, folder_size
from model_wrapper.requirements import for_model


@dataclass(frozen=True)
class Order:
    """What to log."""

    weights: Weights
    engine: str
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


def model_config(order: Order) -> dict[str, Any]:
    """The configuration that is logged with the model.

    Raises:
        InvalidRequest: a key is unknown or its value is no good.
    """
    config: dict[str, Any] = {INTERFACE: order.interface}
    if order.engine == "cpu":
        config["engine_device"] = "cpu"
    if order.weights.reference:
        config["model"] = order.weights.reference
    config |= order.config
    settings_of(config, artifacts(order))
    return config


def artifacts(order: Order) -> dict[str, str]:
    """The folders to copy, by the names under which ``load_context`` finds them."""
    return {ARTIFACT: str(order.weights.folder)} if order.weights.folder else {}


def log(order: Order) -> Logged:
    """Log the model in a run of its own, or in the active one."""
    interface = INTERFACES[order.interface]
    config = model_config(order)
    with tempfile.TemporaryDirectory() as staging:
        code_paths = stage_code(Path(staging), order.engine)
        size = folder_size(Path(staging)) + order.weights.size
        active = mlflow.active_run()
        with mlflow.start_run(run_id=active.info.run_id if active else None, nested=False) as run:
            info = mlflow.pyfunc.log_model(
                **_named(order.name),
                python_model=str(Path(staging, "model_wrapper", "interfaces", interface.file)),
                code_paths=code_paths,
                artifacts=artifacts(order) or None,
                model_config=config,
                pip_requirements=for_model(order.engine),
                input_example=interface.input_example,
                metadata={
                    "task": order.task or interface.task,
                    "interface": order.interface,
                    "engine": order.engine,
                },
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
