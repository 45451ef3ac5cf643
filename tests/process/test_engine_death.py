"""An engine that is lost: requests get a clean error, and it is started again, but not for ever."""

from __future__ import annotations

import concurrent.futures
import signal
from pathlib import Path

import psutil
import pytest
import requests

from tests.process.asking import OpenStream, Stopwatch, invocation, readiness, wait_until_ready
from tests.process.conftest import Start
from tests.process.server import ServerProcess

LONG = 1500  # words, which the fake engine takes 30 s for
CLEARLY_SOONER = 5.0  # than those 30 s; measured: some milliseconds
NO_RESTART = {"ENGINE_MAX_RESTARTS": "0"}


def wait_for_next_engine(server: ServerProcess, lost: psutil.Process) -> psutil.Process:
    """The process that stands for the lost one, once it answers."""
    server.wait_until(lambda: not lost.is_running() and readiness(server).ok, "engine in its place")
    return server.engine()


def test_idle_server_ends_with_its_engine(start: Start) -> None:
    server = start("works", **NO_RESTART)
    wait_until_ready(server)
    server.engine().kill()
    watch = Stopwatch()
    assert server.wait_for_end() == 1
    assert watch.seconds < CLEARLY_SOONER
    assert "the engine ended with signal 9" in server.text
    server.wait_until_all_gone()


def test_killed_engine_is_started_again(start: Start) -> None:
    server = start("works")
    url = wait_until_ready(server)
    for number in (1, 2):
        engine = server.engine()
        engine.kill()
        successor = wait_for_next_engine(server, engine)
        assert successor.pid != engine.pid
        answer = requests.post(f"{url}/invocations", json=invocation(3), timeout=30)
        assert answer.json()["messages"][0]["content"] == "word word word "
        counted = requests.get(f"{url}/metrics", timeout=10).text
        assert f"chat_server_engine_restarts_total {number}.0" in counted
    assert server.text.count("the engine ended with signal 9; starting it again") == 2


def test_engine_that_is_lost_again_and_again_ends_the_server(start: Start) -> None:
    server = start("works", ENGINE_MAX_RESTARTS="1")
    wait_until_ready(server)
    engine = server.engine()
    engine.kill()
    wait_for_next_engine(server, engine).kill()
    assert server.wait_for_end() == 1
    assert "stopping: the engine ended with signal 9" in server.text
    server.wait_until_all_gone()


def test_between_two_engines_callers_are_told_to_come_back(start: Start) -> None:
    server = start("works")
    url = wait_until_ready(server)
    server.engine().kill()

    def refusals() -> list[requests.Response]:
        answer = requests.post(f"{url}/invocations", json=invocation(3), timeout=30)
        return [] if answer.ok else [answer]

    (answer,) = server.wait_until(refusals, "refusal")
    assert answer.status_code == 503
    assert answer.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert int(answer.headers["Retry-After"]) >= 1
    assert requests.get(f"{url}/health/live", timeout=10).ok


def test_killed_while_it_loads(start: Start, tmp_path: Path) -> None:
    """As the kernel does when memory runs out: the next start may find more of it."""
    server = start("killed-at-load", FAKE_ENGINE_RECORD=str(tmp_path / "calls"))
    wait_until_ready(server)
    assert server.text.count("ended with signal 9 while loading; starting it again") == 2


def test_lost_worker(start: Start) -> None:
    """The engine's first process lives on and answers, as SGLang 0.4.6's does without scheduler."""
    server = start("has-worker")
    url = wait_until_ready(server)
    stream = OpenStream(url, LONG)
    engine = server.engine()
    (worker,) = [child for child in engine.children() if child.name() == "sglang::schedul"]
    worker.kill()
    *_, failure, done = stream.rest()
    assert failure["error"]["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert done == "[DONE]"
    wait_for_next_engine(server, engine)
    assert "the engine lost its process sglang::schedul; starting it again" in server.text


def test_worker_that_is_lost_while_the_first_tokens_are_made(start: Start, tmp_path: Path) -> None:
    server = start("dies-at-warm-up", FAKE_ENGINE_RECORD=str(tmp_path / "calls"))
    wait_until_ready(server)
    assert "the engine lost its process sglang::schedul; starting it again" in server.text


def test_stopped_engine(start: Start) -> None:
    """SIGSTOP: every process lives, and none does anything."""
    server = start("works", ENGINE_HANG_TIMEOUT="3")
    url = wait_until_ready(server)
    stream = OpenStream(url, LONG)
    engine = server.engine()
    engine.send_signal(signal.SIGSTOP)
    body = server.wait_until(
        lambda: not (answer := readiness(server)).ok and answer.json(), "notice of the silence"
    )
    assert body["phase"] == "degraded"
    *_, failure, done = stream.rest()
    assert failure["error"]["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert done == "[DONE]"
    wait_for_next_engine(server, engine)
    assert "no sign of life for 3 s; starting it again" in server.text


def test_engine_that_was_only_slow(start: Start) -> None:
    server = start("works", ENGINE_HANG_TIMEOUT="20")
    wait_until_ready(server)
    engine = server.engine()
    engine.send_signal(signal.SIGSTOP)
    server.wait_until(lambda: readiness(server).status_code == 503, "notice of the silence")
    engine.send_signal(signal.SIGCONT)
    server.wait_until(lambda: readiness(server).ok, "notice of the answer")
    assert server.engine() == engine
    assert "starting it again" not in server.text


def test_open_stream_ends_with_an_error(start: Start) -> None:
    server = start("works", **NO_RESTART)
    stream = OpenStream(wait_until_ready(server), LONG)
    assert stream.first["delta"]["content"].startswith("word")
    server.engine().kill()
    watch = Stopwatch()
    *words, failure, done = stream.rest()
    assert watch.seconds < CLEARLY_SOONER
    assert {event["delta"]["role"] for event in words} == {"assistant"}
    assert failure["error"]["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert failure["error"]["message"]
    assert done == "[DONE]"
    assert server.wait_for_end() == 1


@pytest.mark.parametrize("path", ["/invocations", "/v1/chat/completions"])
def test_plain_request_gets_an_error(start: Start, path: str) -> None:
    server = start("works", **NO_RESTART)
    url = wait_until_ready(server)
    body = invocation(LONG)
    if path.startswith("/v1"):
        body = {"model": "pretended", "messages": body["messages"], "max_tokens": LONG}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(requests.post, url + path, json=body, timeout=60)
        engine = server.engine()
        server.wait_until(lambda: engine.num_threads() > 1, "thread that works on the request")
        engine.kill()
        watch = Stopwatch()
        answer = asked.result()
    assert watch.seconds < CLEARLY_SOONER
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    error = answer.json()
    assert (error["error"] if path.startswith("/v1") else error)["message"]
    assert server.wait_for_end() == 1
