"""Ends on request: status 0, nothing left, whatever the engine is doing or refuses to do."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import requests

from tests.process.asking import OpenStream, invocation, readiness, wait_until_ready
from tests.process.conftest import Start
from tests.process.server import ServerProcess

# How far the server is, and what it has printed then.
MOMENTS = {
    "works": r"Ready: http",
    "hangs-at-load": r"loading the weights",
    "hangs-at-model": r"model: downloading",
}


@pytest.mark.parametrize("behaviour", MOMENTS)
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "Ctrl-C"])
def test_stops_at_any_moment(start: Start, behaviour: str, how: str) -> None:
    server = start(behaviour)
    server.wait_for_text(MOMENTS[behaviour])
    assert server.processes()
    _ask_to_stop(server, how)
    assert server.wait_for_end() == 0
    assert "Traceback" not in server.text
    server.wait_until_all_gone(within=5)


def test_engine_that_ignores_sigterm_is_killed(start: Start) -> None:
    server = start("ignores-sigterm", ENGINE_STOP_TIMEOUT="1")
    wait_until_ready(server)
    server.send(signal.SIGTERM)
    assert server.wait_for_end() == 0
    assert "still there 1 s after SIGTERM" in server.text
    server.wait_until_all_gone(within=5)


def test_what_the_engine_leaves_behind_is_killed(start: Start) -> None:
    server = start("outlived-by-child")
    wait_until_ready(server)
    server.wait_for_text("deaf")
    server.send(signal.SIGTERM)
    assert server.wait_for_end() == 0
    server.wait_until_all_gone(within=5)


def test_what_a_dead_engine_leaves_behind_is_killed(start: Start) -> None:
    server = start("outlived-by-child", ENGINE_MAX_RESTARTS="0")
    wait_until_ready(server)
    server.wait_for_text("deaf")
    server.engine().kill()
    assert server.wait_for_end() == 1
    server.wait_until_all_gone(within=5)


@pytest.mark.parametrize("behaviour", MOMENTS)
def test_killed_server_takes_the_engine_with_it(start: Start, behaviour: str) -> None:
    server = start(behaviour)
    server.wait_for_text(MOMENTS[behaviour])
    assert len(server.processes()) == 2
    server.send(signal.SIGKILL)
    assert server.wait_for_end() == -signal.SIGKILL
    server.wait_until_all_gone(within=10)


def test_a_bystander_with_the_engines_name_is_left_alone(start: Start) -> None:
    """Cleaning up by name would end other people's work on the same machine."""
    sleep = "import time; print('up', flush=True); time.sleep(3600)"
    names = ["from multiprocessing", "-m sglang.launch_server", "sglang::scheduler"]
    bystander = subprocess.Popen(
        [sys.executable, "-c", sleep, *names], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert bystander.stdout is not None
        assert bystander.stdout.readline() == b"up\n"
        server = start("works", ENGINE_MAX_RESTARTS="1")
        wait_until_ready(server)
        lost = server.engine()
        lost.kill()
        server.wait_until(lambda: not lost.is_running() and readiness(server).ok, "next engine")
        assert bystander.poll() is None
        server.send(signal.SIGTERM)
        assert server.wait_for_end() == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


def test_open_stream_is_finished_first(start: Start) -> None:
    server = start("works")
    stream = OpenStream(wait_until_ready(server), words=150)
    server.send(signal.SIGTERM)
    *events, done = stream.rest()
    text = "".join(event["delta"]["content"] for event in [stream.first, *events])
    assert text.split() == ["word"] * 150
    assert events[-1]["finish_reason"] == "length"
    assert done == "[DONE]"
    assert server.wait_for_end() == 0
    server.wait_until_all_gone(within=5)


def test_open_stream_does_not_hold_the_stop_up_for_ever(start: Start) -> None:
    server = start("works", SHUTDOWN_GRACE="1")
    stream = OpenStream(wait_until_ready(server), words=3000)
    server.send(signal.SIGTERM)
    *_, failure, done = stream.rest()
    assert failure["error"] == {
        "error_code": "TEMPORARILY_UNAVAILABLE",
        "message": "The server is shutting down; send the request again.",
    }
    assert done == "[DONE]"
    assert server.wait_for_end(within=20) == 0
    server.wait_until_all_gone(within=5)


def test_second_signal_ends_everything_at_once(start: Start) -> None:
    server = start("ignores-sigterm", SHUTDOWN_GRACE="300", ENGINE_STOP_TIMEOUT="300")
    stream = OpenStream(wait_until_ready(server), words=3000)
    server.send(signal.SIGTERM)
    server.wait_for_text("engine draining")
    server.send(signal.SIGTERM)
    assert server.wait_for_end(within=20) == 0
    server.wait_until_all_gone(within=5)
    stream.answer.close()


def test_it_is_not_ready_while_it_still_takes_requests(start: Start) -> None:
    server = start("works", SHUTDOWN_DELAY="3")
    url = wait_until_ready(server)
    server.send(signal.SIGTERM)
    server.wait_for_text("engine draining")
    refused = readiness(server)
    assert (refused.status_code, refused.json()["phase"]) == (503, "draining")
    assert requests.post(f"{url}/invocations", json=invocation(3), timeout=10).ok
    assert server.wait_for_end(within=20) == 0


def _ask_to_stop(server: ServerProcess, how: str) -> None:
    if how == "Ctrl-C":
        server.press_ctrl_c()
    else:
        server.send(signal.Signals[how])
