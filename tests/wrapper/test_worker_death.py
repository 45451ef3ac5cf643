"""Workers of ``mlflow models serve`` that end before their time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import requests

from tests.wrapper.conftest import LIMIT
from tests.wrapper.sandbox import Sandbox, wait_until
from tests.wrapper.scoring import Scoring, serving
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES

QUESTION: dict[str, Any] = {"messages": MESSAGES, "custom_inputs": GREEDY}
WORKERS = 3


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, scoring: Scoring) -> Iterator[Sandbox]:
    """Another temporary folder, so another engine. The first one has converted the weights."""
    with Sandbox(tmp_path_factory.mktemp("workers") / "empty") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def uri(own: Sandbox) -> str:
    return str(own.log(*LIMIT)["model_uri"])


def test_sigterm_while_the_engine_loads(own: Sandbox, uri: str) -> None:
    """Uvicorn only notes the signal, and load_context would go on for as long as a load takes."""
    with serving(own, uri, workers=2) as server:
        engines = wait_until(own.engines, "engine")
        assert len(engines) == 1
        server.process.terminate()
        wait_until(lambda: not own.processes(), "end of server and engine", within=30)
        assert "startup complete" not in server.text, "it had loaded before the signal came"


def test_the_worker_that_owns_the_engine_is_killed(own: Sandbox, uri: str) -> None:
    with serving(own, uri, workers=WORKERS) as server:
        server.wait_until_up()
        assert server.invoke(**QUESTION).status_code == 200
        (engine,) = own.engines()
        psutil.Process(engine.ppid()).send_signal(signal.SIGKILL)
        wait_until(lambda: not engine.is_running(), "end of the engine with its owner", within=10)

        statuses = wait_until(lambda: answers_of_all(server), "answer of every worker")
        assert set(statuses) == {200}
        (successor,) = own.engines()
        assert successor.pid != engine.pid
    wait_until(lambda: not own.processes(), "end of every process", within=30)


def answers_of_all(server: Scoring) -> list[int] | None:
    """Statuses of several requests; nothing while one is told to come back or finds no worker."""
    statuses = []
    for _ in range(4 * WORKERS):
        try:
            answer = server.invoke(**QUESTION)
        except requests.ConnectionError:  # it was on its way to the worker that died
            return None
        if answer.status_code == 503:
            assert answer.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
            return None
        statuses.append(answer.status_code)
    return statuses
