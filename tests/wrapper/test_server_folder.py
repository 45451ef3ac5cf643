"""The folder that serves a model by itself: what is in it, and which settings it gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.settings import Settings
from model_wrapper import cpu_engine
from model_wrapper.entrypoint import logged_values
from model_wrapper.packaging.code import CPU_ENGINE
from model_wrapper.packaging.log import Order, model_config
from model_wrapper.packaging.server_folder import stage_server
from model_wrapper.packaging.weights import Weights
from tests.wrapper.sandbox import Sandbox


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def staged(folder: Path, engine: str = "cpu", **config: Any) -> Path:
    return stage_server(folder, engine, config, {"llm-model": "/elsewhere/モデル one"})


def test_what_it_needs_is_in_it_and_no_more(tmp_path: Path) -> None:
    server = staged(tmp_path)
    files = {str(path.relative_to(server)) for path in server.rglob("*") if path.is_file()}
    assert {"__main__.py", "settings.json", "app/cli.py", "app/gateway/metrics.py"} <= files
    assert all((server / name).exists() for name in CPU_ENGINE)
    assert cpu_engine._fingerprint(server) == cpu_engine._fingerprint(cpu_engine.ROOT)
    assert not [name for name in files if "mlflow" in (server / name).read_text("utf-8").split()]
    assert not [name for name in files if "__pycache__" in name]


def test_the_engine_of_a_gpu_comes_with_the_requirements(tmp_path: Path) -> None:
    server = staged(tmp_path, "cu124")
    assert not (server / "requirements").exists()


def test_the_port_the_weights_and_what_was_logged(tmp_path: Path) -> None:
    server = staged(tmp_path, context_length=512, interface="chat-model")
    assert logged_values(server) == {
        "host": "0.0.0.0",
        "port": 8080,
        "invocations": "openai",
        "allow_no_api_key": True,
        "model": str(tmp_path / "モデル one"),
        "context_length": 512,
    }


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PORT": "3001", "CONTEXT_LENGTH": "64", "HOST": ""}.items():
        monkeypatch.setenv(name, value)
    settings = Settings(**logged_values(staged(tmp_path, context_length=512)))  # type: ignore[arg-type]
    assert (settings.host, settings.port, settings.context_length) == ("0.0.0.0", 3001, 64)


def test_a_key_that_nobody_knows_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="kontext"):
        logged_values(staged(tmp_path, kontext=1))


@pytest.mark.parametrize(
    ("given", "timeout"),
    [
        ({}, 290),
        ({"request_timeout": 60}, 60),
        ({"server": {"request_timeout": 60}}, None),
        ({"server": {"port": 1}}, 290),
    ],
)
def test_an_answer_ends_before_databricks_ends_it(given: dict[str, Any], timeout: Any) -> None:
    order = Order(Weights(None, "m"), "cpu", config=given)
    assert model_config(order).get("request_timeout") == timeout


def test_weights_may_not_lie_where_the_server_lies(tmp_path: Path) -> None:
    weights = Weights(tmp_path / "server", None)
    with pytest.raises(InvalidRequest, match="Rename it"):
        model_config(Order(weights, "cpu", route="entrypoint"))
    assert model_config(Order(weights, "cpu"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--interface", "chat-agent"], "--interface chat-model"),
        (["--interface", "responses-agent"], "--interface chat-model"),
        (["--task", "agent/v2/chat"], "--task llm/v1/chat"),
        (["--task", "llm/v1/completions"], "--task llm/v1/chat"),
        (["--registry-uri", "databricks-uc", "--register", "a.b.c"], "env_pack"),
    ],
)
def test_what_does_not_go_with_the_route_is_an_error(
    options: list[str], named: str, tmp_path: Path
) -> None:
    with Sandbox(tmp_path / "s") as sandbox:
        done = sandbox.wrapper("log", "--route", "entrypoint", *options)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_are_readable(tmp_path: Path) -> None:
    text = (staged(tmp_path) / "settings.json").read_text("utf-8")
    assert "モデル one" in text
    assert json.loads(text)["http"]["port"] == 8080
