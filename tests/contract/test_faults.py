"""Engines that fall silent or break off, as seen by a caller of POST /invocations."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from tests.contract.outcome import invoke
from tests.replay import Recording, ReplayEngine, made_answer, made_chunk, made_stream

LONG = "tools_none_stream"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
STREAM = ASK | {"stream": True}

module_loop = pytest.mark.asyncio(loop_scope="module")


@module_loop
async def test_silence_in_a_stream_ends_with_an_error(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """A scheduler that was killed: the text so far, blank lines meanwhile, then an error."""
    engine.play("disconnect_victim_stream")
    outcome = await invoke(client, gateway, STREAM)
    assert outcome.status == 200
    assert outcome.content.startswith("The story of a young")
    assert outcome.error["error_code"] == "DEADLINE_EXCEEDED"
    assert b"\n\n\n" in outcome.body, "no blank line kept the connection alive"
    await wait_for(lambda: engine.chats[-1].rid in engine.aborted)


@module_loop
async def test_silence_before_the_first_word(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    engine.play("chat_after_kill9")
    outcome = await invoke(client, gateway, ASK)
    assert (outcome.status, outcome.error["error_code"]) == (504, "DEADLINE_EXCEEDED")


@module_loop
@pytest.mark.parametrize("then", ["close", "reset"])
async def test_broken_connections_are_errors_and_not_ends(
    then: Any, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    engine.play(LONG, stop_after=3000, then=then)
    outcome = await invoke(client, gateway, STREAM)
    assert outcome.status == 200
    assert outcome.content
    assert outcome.error["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert "finish_reason" not in outcome.chunks[-1]

    # Twice, as the first may go to a kept connection, for which the gateway tries another one.
    for _ in range(2):
        engine.play(LONG, stop_after=0, then=then)
    outcome = await invoke(client, gateway, STREAM)
    engine.forget()
    assert (outcome.status, outcome.error["error_code"]) == (503, "TEMPORARILY_UNAVAILABLE")

    engine.play("chat_plain", stop_after=300, then=then)
    outcome = await invoke(client, gateway, ASK)
    assert (outcome.status, outcome.error["error_code"]) == (503, "TEMPORARILY_UNAVAILABLE")


@module_loop
@pytest.mark.parametrize("then", ["close", "stall"])
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
async def test_a_body_that_breaks_its_own_framing(
    body: dict[str, Any],
    then: Any,
    engine: ReplayEngine,
    gateway: str,
    client: aiohttp.ClientSession,
) -> None:
    """Noticed at once, not when the deadline passes: aiohttp's reader alone would never end."""
    kind = b"text/event-stream" if "stream" in body else b"application/json"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"5\r\ndata:\r\n"
    broken = Recording("made", head + chunk + b"no length\r\n" + chunk)
    engine.play(broken, split=[len(head), len(head + chunk)], pause=0.05, then=then)
    began = time.monotonic()
    outcome = await invoke(client, gateway, body)
    assert outcome.error["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert time.monotonic() - began < 0.9, "the time limit ended it, not the connection"


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize("dripping", ["head", "refusal"])
async def test_an_answer_that_drips_in_for_ever(
    dripping: str,
    body: dict[str, Any],
    engine: ReplayEngine,
    gateway: str,
    client: aiohttp.ClientSession,
) -> None:
    """Each byte comes within the limit for silences, and still there is an end."""
    answer = made_answer({"message": "x" * 100}, status=500)
    drops = range(60) if dripping == "head" else range(len(answer.head), len(answer.response))
    engine.play(answer, split=list(drops), pause=0.2)
    async with asyncio.timeout(5):  # the head alone would take twelve seconds
        outcome = await invoke(client, gateway, body)
    assert outcome.error["error_code"] == "DEADLINE_EXCEEDED"
    assert outcome.status == (200 if outcome.streamed else 504)  # a stream was kept alive meanwhile


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
async def test_a_kept_connection_that_died_is_no_error(
    body: dict[str, Any], engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """The engine may close an idle connection in the moment in which a request is sent on it."""
    assert (await invoke(client, gateway, body)).status == 200
    engine.play(LONG if body.get("stream") else "chat_plain", stop_after=0, then="close")
    outcome = await invoke(client, gateway, body)
    assert outcome.status == 200
    assert outcome.content


@module_loop
async def test_a_stream_without_its_end_is_an_error(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """The HTTP body ends well, but the engine never said that it had finished."""
    engine.play(made_stream([made_chunk(content="Par")], done=False))
    outcome = await invoke(client, gateway, STREAM)
    assert outcome.content == "Par"
    assert outcome.error["error_code"] == "TEMPORARILY_UNAVAILABLE"


@module_loop
@pytest.mark.parametrize(
    "answer",
    [
        made_answer("<html>", 200, "text/html"),
        made_answer({"choices": []}),
        made_answer("Internal Server Error at /root/secret.py", 500, "text/plain"),
        made_answer({"error": {"message": "prompt was: tell me a secret"}}, 400),
    ],
    ids=["html", "no choices", "fault", "refusal"],
)
async def test_bad_answers_are_errors_without_their_text(
    answer: Recording, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    engine.play(answer)
    outcome = await invoke(client, gateway, ASK)
    assert outcome.status in (400, 500)
    assert set(outcome.json) == {"error_code", "message"}
    assert "secret" not in outcome.body.decode()


@module_loop
async def test_a_caller_who_leaves_frees_the_engine(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    for body, played in ((STREAM, "disconnect_victim_stream"), (ASK, "chat_after_kill9")):
        engine.play(played)
        before = len(engine.chats)
        leaving = asyncio.create_task(invoke(client, gateway, body))
        await wait_for(lambda before=before: len(engine.chats) > before)
        left = engine.chats[-1]
        await asyncio.sleep(0.1)
        leaving.cancel()
        # Well before the deadline of 1 second, which would abort it in any case.
        await wait_for(lambda left=left: left.rid in engine.aborted, seconds=0.7)


async def wait_for(condition: Any, seconds: float = 2.0) -> None:
    """Poll until ``condition()`` is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens elsewhere
            await asyncio.sleep(0.01)
