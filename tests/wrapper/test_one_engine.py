"""Processes that load the same model share one engine, and it survives the death of its owner.

The model here has weights of its own, in a folder with a blank and Japanese in its name, and the
configuration of the ChatAgent example that people come from.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from app.settings import Settings
from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import PATIENCE, Sandbox, free_port, wait_until
from tests.wrapper.scoring import Scoring
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES, joined

CONVERTED = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, scoring: Scoring) -> Iterator[Sandbox]:
    """Another temporary folder, so another engine. The first one has converted the weights."""
    with Sandbox(tmp_path_factory.mktemp("own") / "作業 folder") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def weights(own: Sandbox) -> Path:
    source = Settings().model_cache / CONVERTED
    return Path(shutil.copytree(source, own.folder / "小さな model"))


@pytest.fixture(scope="module")
def artifact(own: Sandbox, weights: Path, port: int) -> dict[str, Any]:
    server = {
        "model_name": "bakeneko",
        "port": port,
        "mem-fraction-static": 0.5,
        "additional_args": "--log-level error",
    }
    options = ("--model", str(weights), "--engine", "cpu")
    return own.log(*options, "--config", json.dumps({"server": server}))


def test_weights_are_copied_and_counted(artifact: dict[str, Any], weights: Path) -> None:
    whole = sum(file.stat().st_size for file in weights.iterdir())
    assert whole < artifact["size"] < whole + 2_000_000


def test_three_processes_one_engine_and_a_new_owner(
    own: Sandbox, artifact: dict[str, Any], weights: Path, port: int
) -> None:
    shutil.rmtree(weights)  # the model has its own copy
    uri = artifact["model_uri"]
    question = {"messages": MESSAGES, "custom_inputs": GREEDY}
    first = LoadedModel(own, uri)
    others = [LoadedModel(own, uri) for _ in range(2)]
    with others[0], others[1]:
        first.__enter__()
        text = first.predict(**question)["messages"][0]["content"]
        assert [joined(each.stream(**question)) for each in others] == [text, text]

        (engine,) = own.engines()
        assert own.engine_url() == f"http://127.0.0.1:{port}"
        listed = requests.get(f"http://127.0.0.1:{port}/v1/models", timeout=10).json()
        assert [each["id"] for each in listed["data"]] == ["bakeneko"]
        assert "--log-level error" in " ".join(engine.cmdline())
        owner = psutil.Process(engine.ppid())
        assert owner.pid == first.process.pid

        owner.send_signal(signal.SIGKILL)
        answers = [answer_after_the_loss(each, question) for each in others]
        for answer in answers:
            # What a fresh engine has in its cache and its batch rounds some sums otherwise.
            assert answer["messages"][0]["content"].startswith(text[:20])
            assert answer["usage"]["completion_tokens"] == GREEDY["max_tokens"]

        assert not psutil.pid_exists(engine.pid)
        (successor,) = own.engines()
        assert successor.pid != engine.pid
        assert successor.ppid() in {each.process.pid for each in others}
    first.end()
    wait_until(lambda: not own.processes(), "end of every process", within=20)


def answer_after_the_loss(model: LoadedModel, question: dict[str, Any]) -> Any:
    """The first good answer. Until the loss is noticed a caller is told to try again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = model.ask("predict", question)
        if "error" not in answer:
            return answer["answer"]
        assert (answer["error"], answer["status"]) == ("TEMPORARILY_UNAVAILABLE", 503)
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)
