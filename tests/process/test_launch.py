"""How the engine is called: arguments, environment and output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.process.asking import readiness, wait_until_ready
from tests.process.conftest import Start


def _calls(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def _value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def test_arguments_reach_the_engine_unharmed(start: Start, tmp_path: Path) -> None:
    model = tmp_path / "My models" / "日本語 モデル; $(touch harm)"
    model.mkdir(parents=True)
    record = tmp_path / "calls"
    server = start(
        "works",
        MODEL=str(model),
        SERVED_MODEL_NAME="my model",
        ENGINE_ARGS="""--json-model-override-args '{"rope_theta": 1}' --chat-template "a b" """,
        CONTEXT_LENGTH="4096",
        FAKE_ENGINE_RECORD=str(record),
    )
    wait_until_ready(server)
    version, prepared, launched = (call["arguments"] for call in _calls(record))
    assert version[0] == "-c"
    assert _value(prepared, "--model") == str(model)
    assert launched[:2] == ["-m", "sglang.launch_server"]
    assert _value(launched, "--model-path") == str(model)
    assert _value(launched, "--served-model-name") == "my model"
    assert _value(launched, "--context-length") == "4096"
    assert launched[-4:] == [
        "--json-model-override-args",
        '{"rope_theta": 1}',
        "--chat-template",
        "a b",
    ]


def test_engine_listens_on_loopback_only(start: Start, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    server = start("works", HOST="0.0.0.0", ALLOW_NO_API_KEY="true", FAKE_ENGINE_RECORD=str(record))
    wait_until_ready(server)
    launched = _calls(record)[-1]["arguments"]
    assert launched.count("--host") == 1
    assert _value(launched, "--host") == "127.0.0.1"


def test_options_win_over_the_environment(start: Start, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    options = ("--model", "from-option", "--host", "127.0.0.1")
    server = start("works", *options, MODEL="other", HOST="x", FAKE_ENGINE_RECORD=str(record))
    wait_until_ready(server)
    assert _value(_calls(record)[1]["arguments"], "--model") == "from-option"


def test_our_secrets_stay_with_us(start: Start, tmp_path: Path) -> None:
    record = tmp_path / "calls"
    secrets = {"API_KEY": "of-the-gateway", "ENGINE_API_KEY": "of-another-engine"}
    server = start("works", FAKE_ENGINE_RECORD=str(record), HF_TOKEN="for the hub", **secrets)
    wait_until_ready(server)
    calls = _calls(record)
    assert len(calls) == 3
    for call in calls:
        assert secrets.keys() & call["environment"].keys() == set()
        assert not set(secrets.values()) & set(call["environment"].values())
        assert call["environment"]["HF_TOKEN"] == "for the hub"


def test_secrets_are_not_printed(start: Start) -> None:
    server = start("works", API_KEY="of-the-gateway", LOG_LEVEL="debug")
    wait_until_ready(server)
    assert "of-the-gateway" not in server.text


def test_flood_of_log_lines_does_not_block(start: Start) -> None:
    server = start("floods-log")
    wait_until_ready(server)
    assert "line 0 of the flood" in server.text
    assert "line 9999 of the flood" in server.text


def test_not_ready_while_the_engine_loads(start: Start) -> None:
    server = start("hangs-at-load", MODEL="some-model")
    server.wait_for_text("loading the weights")
    answer = readiness(server)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"].isdigit()
    body = answer.json()
    assert body["phase"] == "loading"
    assert body["reason"]
    assert body["seconds"] >= 0
    assert "Ready:" not in server.text
