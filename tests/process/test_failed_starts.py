"""A start that can't succeed ends soon, says why in words, and leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.process.asking import Stopwatch
from tests.process.conftest import Start

# Most of it is what the interpreter needs to end, on a machine that does other things besides.
AT_ONCE = 10.0


@pytest.mark.parametrize("log_level", ["info", "error"])
def test_engine_that_exits_while_it_loads(start: Start, log_level: str) -> None:
    server = start("exits-at-load", LOG_LEVEL=log_level)
    server.wait_for_text("CUDA out of memory")
    watch = Stopwatch()
    assert server.wait_for_end() == 1
    assert watch.seconds < AT_ONCE
    assert "the engine ended with status 3 while loading" in server.text
    assert "Traceback" not in server.text
    server.wait_until_all_gone()


def test_engine_that_never_gets_ready(start: Start) -> None:
    server = start("hangs-at-load", ENGINE_START_TIMEOUT="1", ENGINE_STOP_TIMEOUT="1")
    assert server.wait_for_end() == 1
    assert "not ready within ENGINE_START_TIMEOUT" in server.text
    assert "Ready:" not in server.text
    server.wait_until_all_gone()


def test_model_that_cannot_be_had(start: Start) -> None:
    server = start("no-model", MODEL="nowhere")
    assert server.wait_for_end() == 1
    assert "MODEL nowhere: there is no such folder" in server.text
    assert "the model nowhere can't be had" in server.text
    assert "Traceback" not in server.text


@pytest.mark.parametrize(
    ("python", "words"),
    [("/nowhere/python", "ENGINE_PYTHON can't be run"), ("/bin/false", "SGLang is not installed")],
)
def test_environment_without_an_engine(start: Start, python: str, words: str) -> None:
    server = start("works", ENGINE_PYTHON=python)
    assert server.wait_for_end() == 1
    assert words in server.text
    assert "Traceback" not in server.text


def test_port_that_is_taken(start: Start, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        server = start("works", PORT=port, FAKE_ENGINE_RECORD=str(record))
        assert server.wait_for_end() == 2
    assert f"can't listen on 127.0.0.1 port {port}" in server.text
    assert "set PORT" in server.text
    assert "Traceback" not in server.text
    assert not record.exists(), "the engine was called all the same"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("ENGINE_URL", "smollm2"),
        ("ENGINE_ARGS", "--served-model-name 'half a quote"),
        ("ENGINE_DEVICE", "tpu"),
        ("CONTEXT_LENGTH", "0"),
        ("MEM_FRACTION_STATIC", "1.5"),
        ("REQUEST_TIMEOUT", "-1"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_bad_setting_is_named(start: Start, tmp_path: Path, name: str, value: str) -> None:
    record = tmp_path / "calls"
    server = start("works", FAKE_ENGINE_RECORD=str(record), **{name: value})
    assert server.wait_for_end() == 2
    assert f"{name}: " in server.text
    assert "Traceback" not in server.text
    assert not record.exists(), "the engine was called all the same"


def test_every_bad_setting_is_named_at_once(start: Start) -> None:
    server = start("works", PORT="http", CONTEXT_LENGTH="0")
    assert server.wait_for_end() == 2
    assert "PORT: " in server.text
    assert "CONTEXT_LENGTH: " in server.text
