"""``python -m model_wrapper log``: no engine, the right things in the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from model_wrapper.requirements import FLASHINFER
from tests.unit.model_folders import WHOLE, write
from tests.wrapper.sandbox import Sandbox, wait_until


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Sandbox(tmp_path_factory.mktemp("logging") / "empty") as sandbox:
        yield sandbox


def model_folder(sandbox: Sandbox, logged: dict[str, Any]) -> Path:
    (found,) = sandbox.folder.rglob(f"{logged['model_uri'].removeprefix('models:/')}/artifacts")
    return found


def test_first_try_starts_nothing(own: Sandbox) -> None:
    # An engine that can't exist: whatever asks for it fails.
    logged = own.log(ENGINE_PYTHON="/nowhere/python", ENGINE_START="load")
    assert own.processes() == []
    assert set(logged) == {
        *("run_id", "model_uri", "size", "registered_model", "version", "tracking_uri", "next"),
    }
    assert f"validate {logged['model_uri']}" in logged["next"]

    folder = model_folder(own, logged)
    description = yaml.safe_load((folder / "MLmodel").read_text("utf-8"))
    flavor = description["flavors"]["python_function"]
    assert flavor["streamable"] is True
    assert flavor["loader_module"] == "mlflow.pyfunc.loaders.code_model"
    assert flavor["config"]["model"] == "smollm2-135m-instruct"
    assert description["metadata"]["task"] == "agent/v2/chat"
    assert description["signature"]["outputs"]
    assert (folder / "input_example.json").exists()
    names = {str(path.relative_to(folder / "code")) for path in (folder / "code").rglob("*")}
    assert {"app/service.py", "model_wrapper/backend.py"} <= names
    assert {"requirements/engine-cpu.txt", "engine/plaincpu/pyproject.toml"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    whole = sum(file.stat().st_size for file in (folder / "code").rglob("*") if file.is_file())
    assert logged["size"] == whole


def test_weights_by_reference(own: Sandbox) -> None:
    logged = own.log(
        *("--model", "/Volumes/main/llm/weights/qwen", "--by-reference", "--engine", "cu124"),
        *("--task", "llm/v1/chat", "--config", "context_length=4096"),
    )
    folder = model_folder(own, logged)
    description = yaml.safe_load((folder / "MLmodel").read_text("utf-8"))
    config = description["flavors"]["python_function"]["config"]
    assert config["model"] == "/Volumes/main/llm/weights/qwen"
    assert config["context_length"] == "4096"
    assert description["metadata"]["task"] == "llm/v1/chat"
    lines = (folder / "requirements.txt").read_text("utf-8").splitlines()
    assert FLASHINFER in lines
    assert any(line.startswith("sglang==0.4.6") for line in lines)
    assert not (folder / "artifacts").exists()
    assert not (folder / "code" / "engine").exists()


def test_weights_are_copied(own: Sandbox, tmp_path: Path) -> None:
    weights = write(tmp_path / "モデル one", WHOLE)
    logged = own.log("--model", str(weights))
    folder = model_folder(own, logged) / "artifacts" / "モデル one"
    assert {file.name for file in folder.iterdir()} == {file.name for file in weights.iterdir()}


MISTAKES = {
    "unknown key": (["--config", "mem_fraction=0.8"], "model_config.mem_fraction"),
    "unknown key of the old spelling": (
        ["--config", json.dumps({"server": {"model-name": "x"}})],
        "model_config.server.model-name",
    ),
    "a value that is no good": (["--config", "mem_fraction_static=2"], "mem_fraction_static"),
    "a secret": (["--config", "engine_api_key=x"], "engine_api_key"),
    "no pair": (["--config", "oops"], "key=value"),
    "no such folder": (["--model", "/no/such/folder"], "--by-reference"),
    "half a model": (["--model", "."], "config.json"),
    "alias without name": (["--alias", "champion"], "--register"),
    "no such server": (["--tracking-uri", "nonsense://x"], "nonsense://x"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str, own: Sandbox) -> None:
    arguments, named = MISTAKES[name]
    done = own.wrapper("log", *arguments)
    assert done.returncode in (1, 2), done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    wait_until(lambda: not own.processes(), "end of every process", within=5)
