"""The engine dies under a running server: requests get a clean error, and the server ends too."""

from __future__ import annotations

import concurrent.futures

import pytest
import requests

from tests.process.asking import OpenStream, Stopwatch, invocation, wait_until_ready
from tests.process.conftest import Start

LONG = 1500  # words, which the fake engine takes 30 s for
CLEARLY_SOONER = 5.0  # than those 30 s; measured: some milliseconds


def test_idle_server_ends_with_its_engine(start: Start) -> None:
    server = start("works")
    wait_until_ready(server)
    server.engine().kill()
    watch = Stopwatch()
    assert server.wait_for_end() == 1
    assert watch.seconds < CLEARLY_SOONER
    assert "the engine ended with signal 9" in server.text
    server.wait_until_all_gone()


def test_open_stream_ends_with_an_error(start: Start) -> None:
    server = start("works")
    stream = OpenStream(wait_until_ready(server), LONG)
    assert stream.first["delta"]["content"].startswith("word")
    server.engine().kill()
    watch = Stopwatch()
    *words, failure, done = stream.rest()
    assert watch.seconds < CLEARLY_SOONER
    assert {event["delta"]["role"] for event in words} == {"assistant"}
    assert failure["error"]["error_code"] in {"TEMPORARILY_UNAVAILABLE", "INTERNAL_ERROR"}
    assert failure["error"]["message"]
    assert done == "[DONE]"
    assert server.wait_for_end() == 1


@pytest.mark.parametrize("path", ["/invocations", "/v1/chat/completions"])
def test_plain_request_gets_an_error(start: Start, path: str) -> None:
    server = start("works")
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
    assert answer.status_code in {500, 503}
    error = answer.json()
    assert (error["error"] if path.startswith("/v1") else error)["message"]
    assert server.wait_for_end() == 1
