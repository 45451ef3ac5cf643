"""OpenAI's routes, passed through to the engine byte for byte.

Three things are added, none of which touches an answer: an id by which the request can be
aborted when its client leaves, errors in OpenAI's form with the right status (also for a stream
whose first event is an error under status 200), and an error event when a stream breaks off.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from app.engines.openai_http import OpenAIEngine
from app.engines.openai_wire import error_in_event
from app.errors import engine_lost
from app.sse import DONE, SSEDecoder

Place = AbstractAsyncContextManager[None]
"""A place at the engine (``Admission.slot``), which is held while the engine is asked."""

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(frozen=True)
class Relayed:
    """A whole answer of the engine."""

    content_type: str
    body: bytes


async def relay(engine: OpenAIEngine, method: str, path: str, body: bytes, place: Place) -> Relayed:
    """Ask the engine and take the whole answer.

    Raises:
        ChatServerError: no place, or any status other than 200.
    """
    async with place, engine.request(method, path, body) as answer:
        content = await answer.read()
        return Relayed(answer.header(b"content-type") or "application/json", content)


async def relay_stream(
    engine: OpenAIEngine, path: str, body: bytes, place: Place
) -> AsyncGenerator[bytes, None]:
    """The engine's stream as it comes, event by whole event.

    Between events, and only there, others may write something of their own: a blank line that
    keeps the connection alive, or an error when the stream breaks off.

    Raises:
        ChatServerError: before the first piece, no place or what the engine refused; after it, that
            the stream broke off.
    """
    decoder = SSEDecoder()
    held = b""
    started = ended = False
    async with place, engine.request("POST", path, body, stream=True) as answer:
        async for chunk in answer:
            events = decoder.feed(chunk)
            ended = ended or DONE in events
            held += chunk
            if not events:
                continue
            if not started and (error := error_in_event(events[0])) is not None:
                raise error
            started = True
            whole = _end_of_last_event(held)
            yield held[:whole]
            held = held[whole:]
    if not ended:
        raise engine_lost()
    if held:
        yield held


def _end_of_last_event(data: bytes) -> int:
    """Where the last blank line in ``data`` ends."""
    ends = [data.rfind(mark) + len(mark) for mark in _BLANK_LINES if mark in data]
    return max(ends, default=len(data))
