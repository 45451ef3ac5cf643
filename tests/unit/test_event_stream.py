"""The streaming response against a server that the tests play: status, keep-alive, ends."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.requests import Request

from app.errors import InvalidRequest
from app.gateway.error_forms import mlflow_error, openai_error
from app.gateway.event_stream import EventStream
from app.gateway.responses import unless_disconnected
from app.sse import DONE_EVENT, KEEP_ALIVE, encode_event
from tests.unit.asgi import Caller, http_scope

PATIENCE = 0.05


class Source:
    """Frames with pauses between them; knows how it ended."""

    def __init__(self, *steps: bytes | float | Exception) -> None:
        self._steps = steps
        self.closed = False
        self.waiting = asyncio.Event()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        try:
            for step in self._steps:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    self.waiting.set()
                    await asyncio.sleep(step)
                else:
                    yield step
        finally:
            # What frees the engine takes time too, and must not be cut short.
            await asyncio.sleep(0)
            self.closed = True


def streamed(source: Source, caller: Caller, **options: Any) -> Any:
    options = {"error_body": mlflow_error, "patience": PATIENCE} | options
    response = EventStream(source.frames(), **options)
    return response(http_scope(), caller.receive, caller.send)


A, B = encode_event(b'{"a":1}'), encode_event(b'{"b":2}')
BAD = InvalidRequest("'x' is wrong.", field="x")


async def test_frames_then_done() -> None:
    source, caller = Source(A, B), Caller()
    await streamed(source, caller, headers={"X-Warning": "w"})
    assert (caller.status, caller.body, caller.ended) == (200, A + B + DONE_EVENT, True)
    assert caller.header("content-type") == "text/event-stream; charset=utf-8"
    assert caller.header("x-accel-buffering") == "no"
    assert caller.header("cache-control") == "no-cache"
    assert caller.header("x-warning") == "w"
    assert caller.header("content-length") is None
    assert source.closed


async def test_nothing_at_all_is_an_empty_stream() -> None:
    caller = Caller()
    await streamed(Source(), caller)
    assert (caller.status, caller.body) == (200, DONE_EVENT)


@pytest.mark.parametrize("early", [(), (PATIENCE / 5,)])
async def test_an_error_before_the_first_event_has_its_own_status(early: tuple[float, ...]) -> None:
    source, caller = Source(*early, BAD), Caller()
    await streamed(source, caller)
    assert caller.status == 400
    assert caller.header("content-type") == "application/json"
    assert caller.json == {"error_code": "INVALID_PARAMETER_VALUE", "message": "'x' is wrong."}
    assert caller.ended
    assert source.closed


async def test_a_slow_first_event_begins_with_blank_lines() -> None:
    source, caller = Source(PATIENCE * 6, A), Caller()
    task = asyncio.ensure_future(streamed(source, caller))
    await asyncio.sleep(PATIENCE * 3.5)
    assert caller.status == 200, "no status line while the engine is slow"
    assert caller.body
    assert set(caller.body) == set(KEEP_ALIVE)
    await task
    assert caller.body.lstrip(b"\n") == A + DONE_EVENT


async def test_an_error_after_the_status_line_is_an_event() -> None:
    caller = Caller()
    await streamed(Source(PATIENCE * 3, BAD), caller)
    assert caller.status == 200
    event, done, rest = caller.body.lstrip(b"\n").split(b"\n\n")
    assert json.loads(event.removeprefix(b"data: ")) == {"error": mlflow_error(BAD)}
    assert (done, rest) == (b"data: [DONE]", b"")


async def test_errors_inside_the_stream_keep_the_form_of_their_route() -> None:
    caller = Caller()
    await streamed(Source(A, BAD), caller, error_body=openai_error, done=b"")
    error = encode_event(json.dumps(openai_error(BAD), separators=(",", ":")).encode())
    # A relayed stream brings its own [DONE], but not when it broke off.
    assert caller.body == A + error + DONE_EVENT


async def test_a_bug_shows_nothing_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    for steps in ((A, RuntimeError("/root/secret")), (RuntimeError("/root/secret"),)):
        caller = Caller()
        await streamed(Source(*steps), caller)
        assert b"secret" not in caller.body
        assert b"INTERNAL_ERROR" in caller.body
        assert caller.ended
        assert "secret" in str(caplog.records[-1].exc_info)


@pytest.mark.parametrize("steps", [(30.0,), (A, 30.0), (A, B, 30.0)])
async def test_a_client_that_leaves_closes_the_generator(steps: tuple[Any, ...]) -> None:
    source, caller = Source(*steps), Caller()
    task = asyncio.ensure_future(streamed(source, caller))
    await source.waiting.wait()
    caller.gone.set()
    async with asyncio.timeout(1):
        await task
    assert source.closed
    assert not caller.ended


async def test_a_cancelled_response_closes_the_generator() -> None:
    source, caller = Source(A, 30.0), Caller()
    task = asyncio.ensure_future(streamed(source, caller))
    await source.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed


@pytest.mark.parametrize("broken_at", [0, 1, 2])
async def test_a_connection_that_breaks_while_we_write_is_a_client_that_left(
    broken_at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it is a blank line that finds out, and nobody is left to tell."""

    class Broken(Caller):
        async def send(self, message: dict[str, Any]) -> None:
            if len(self.written) + bool(self.status) > broken_at:
                raise ConnectionResetError
            await super().send(message)

    source = Source(PATIENCE * 4, A, PATIENCE * 4, B, A)
    with caplog.at_level(logging.ERROR):
        await streamed(source, Broken())
        gc.collect()
        await asyncio.sleep(0)
    assert source.closed
    assert caplog.messages == []


async def test_plain_work_is_cancelled_when_the_client_leaves() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    caller = Caller([])
    asyncio.get_running_loop().call_later(0.02, caller.gone.set)
    request = Request(http_scope(), caller.receive)
    with pytest.raises(Exception, match="closed the request"):
        await unless_disconnected(request, work())
    assert cancelled.is_set()


async def test_plain_work_gives_its_result_or_its_error() -> None:
    async def work(result: int) -> int:
        if result < 0:
            raise BAD
        return result

    request = Request(http_scope(), Caller([]).receive)
    assert await unless_disconnected(request, work(5)) == 5
    with pytest.raises(InvalidRequest):
        await unless_disconnected(request, work(-1))
