"""Clients that come together, and clients that leave before their answer is complete."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import requests

from tests.e2e.asking import Invocations
from tests.e2e.engine import RealEngine
from tests.e2e.prompts import CAPITAL, ENDLESS, QUESTIONS

# Left alone, the answer takes minutes. By itself the engine looks every few seconds whether its
# client is still there; the gateway's abort takes effect with the next token.
LONG = ENDLESS.request(max_tokens=4000, ignore_eos=True)
SOON = 3.0


@pytest.fixture
def aborted_before(engine: RealEngine) -> float:
    """Aborted requests so far, with an engine that is idle."""
    _wait(lambda: engine.running == 0, "idle engine", 30)
    return engine.aborted


def test_stream_that_is_left(url: str, engine: RealEngine, aborted_before: float) -> None:
    answer = requests.post(f"{url}/invocations", json=LONG | {"stream": True}, stream=True)
    lines = (line for line in answer.iter_lines() if line)
    for _ in range(4):
        next(lines)
    answer.close()
    _expect_abort(engine, aborted_before)


def test_plain_request_that_is_left(url: str, engine: RealEngine, aborted_before: float) -> None:
    generated = engine.metric("generation_tokens_total")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/invocations", json=LONG, timeout=2)
    _expect_abort(engine, aborted_before)
    assert engine.metric("generation_tokens_total") >= generated


def test_relayed_stream_that_is_left(url: str, engine: RealEngine, aborted_before: float) -> None:
    body = {"model": "smollm2-135m-instruct", "messages": ENDLESS.messages, "stream": True}
    body |= {"max_tokens": 4000, "ignore_eos": True}
    with (
        httpx.Client(timeout=30) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer,
    ):
        assert next(answer.iter_bytes())
    _expect_abort(engine, aborted_before)


def test_eight_streams_at_once(url: str) -> None:
    questions = [question for question in QUESTIONS.values() if "regex" not in question.inputs]
    chosen = questions[:8]

    def ask(number: int) -> str:
        with Invocations(url) as client:
            return client.ask(chosen[number].request(stream=True)).content

    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(ask, range(8)))
    assert contents == [question.answer for question in chosen]


def test_one_leaves_and_the_others_stay(
    url: str, engine: RealEngine, aborted_before: float
) -> None:
    def ask(_: int) -> str:
        with Invocations(url) as client:
            return client.ask(CAPITAL.request(stream=True)).content

    left = requests.post(f"{url}/invocations", json=LONG | {"stream": True}, stream=True)
    with ThreadPoolExecutor(3) as pool:
        others = pool.map(ask, range(3))
        next(left.iter_content(1))
        left.close()
        assert list(others) == [CAPITAL.answer] * 3
    _expect_abort(engine, aborted_before)


def _expect_abort(engine: RealEngine, before: float) -> None:
    started = time.monotonic()
    _wait(lambda: engine.aborted == before + 1, "abort", SOON)
    _wait(lambda: engine.running == 0, "idle engine", SOON)
    print(f"the engine was idle after {time.monotonic() - started:.2f} s")


def _wait(true: object, what: str, within: float) -> None:
    assert callable(true)
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"no {what} within {within} s"
        time.sleep(0.05)
