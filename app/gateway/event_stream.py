"""A response that sends server-sent events as they are made, and copes with whoever reads them."""

import asyncio
import logging
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import ChatServerError, public_error
from app.gateway.connection import connection_of
from app.gateway.error_forms import ErrorBody
from app.gateway.interruption import Interruptible
from app.gateway.responses import error_response, watch_for_disconnect
from app.schemas.chat_agent_answer import encode
from app.sse import DONE_EVENT, KEEP_ALIVE, encode_event

log = logging.getLogger(__name__)

# Told to proxies, so that tokens are not collected before they are passed on.
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """An ASGI response that sends server-sent events made by a generator.

    The status line waits for the first event, so an error before it keeps its own status. When
    the generator is slower than ``patience`` seconds, the answer begins all the same, with blank
    lines that keep the connection alive; later errors are an event in the stream. However
    the stream ends, the generator is closed, which frees what the engine holds for it.

    Args:
        events: complete frames, but for the final ``[DONE]``.
        error_body: how an error is worded.
        patience: seconds of silence after which a blank line is sent.
        slow_after: seconds that the client may leave what was written unread. uvicorn's and the
            socket's buffers bound how much that is, and a full buffer stops the engine's stream.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        error_body: ErrorBody,
        patience: float,
        slow_after: float = 60.0,
        headers: dict[str, str] | None = None,
        done: bytes = DONE_EVENT,
    ) -> None:
        self._events = events
        self._error_body = error_body
        self._patience = patience
        self._slow_after = slow_after
        self._done = done
        # As Starlette's own StreamingResponse does: headers without a length, and no body.
        self.status_code = 200
        self.background = None
        self.media_type = "text/event-stream"
        self.init_headers(STREAM_HEADERS | (headers or {}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        block = Interruptible()
        wire = _Wire(send, self.raw_headers, block, self._patience, self._slow_after)
        stop_watching = watch_for_disconnect(scope, receive, block)
        try:
            with block:
                await self._send(scope, receive, send, wire)
        except _ConnectionBroke:
            pass  # the same as a client that left
        finally:
            stop_watching()
            await wire.close()
            await self._events.aclose()
        if wire.stuck:
            log.warning("cut off: the client read nothing for %g s", self._slow_after)
            if (connection := connection_of(scope)) is not None:
                connection.abort()

    async def _send(self, scope: Scope, receive: Receive, send: Send, wire: "_Wire") -> None:
        end = self._done
        try:
            async for frame in self._events:
                await wire.write(frame)
        except _ConnectionBroke:
            raise
        except Exception as error:
            shown = _logged(error)
            if not wire.begun:
                await wire.close()
                await error_response(shown, self._error_body)(scope, receive, send)
                return
            body = self._error_body(shown)
            await wire.write(encode_event(encode(body if "error" in body else {"error": body})))
            end = DONE_EVENT  # a relayed stream that broke off did not bring its own
        await wire.end(end)


class _ConnectionBroke(Exception):
    """The client can't be written to; told apart from errors of what we write."""


class _Wire:
    """The body of one streamed answer: begun when first written to, kept alive, seen when stuck.

    One timer for the stream, none for each of its pieces: it looks when silence would be too long
    if nothing had been written since.
    """

    def __init__(
        self,
        send: Send,
        headers: list[tuple[bytes, bytes]],
        block: Interruptible,
        patience: float,
        slow_after: float,
    ) -> None:
        self._asgi_send = send
        self._headers = headers
        self._block = block
        self._patience = patience
        self._slow_after = slow_after
        self._clock = asyncio.get_running_loop().time
        self._last_write = self._clock()
        self._writing = False
        self._keeping_alive: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(patience, self._look)
        self.begun = False
        self.stuck = False

    async def write(self, data: bytes) -> None:
        """Send a piece, after the headers if it is the first."""
        await self._send_after_blank_line(data, more=True)

    async def end(self, data: bytes) -> None:
        """Send the last piece."""
        await self._send_after_blank_line(data, more=False)

    async def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()
        if self._keeping_alive is not None:
            self._keeping_alive.cancel()
            await asyncio.wait({self._keeping_alive})

    async def _send_after_blank_line(self, data: bytes, *, more: bool) -> None:
        if self._keeping_alive is not None:
            await asyncio.wait({self._keeping_alive})
            self._keeping_alive = None
        await self._send(data, more=more)

    async def _send(self, data: bytes, *, more: bool) -> None:
        self._last_write = self._clock()
        self._writing = True
        try:
            if not self.begun:
                self.begun = True
                start = {"type": "http.response.start", "status": 200, "headers": self._headers}
                await self._asgi_send(start)
            await self._asgi_send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError as error:
            raise _ConnectionBroke from error
        self._writing = False

    def _look(self) -> None:
        limit = self._slow_after if self._writing else self._patience
        left = self._last_write + limit - self._clock()
        if left <= 0:
            if self._writing:
                self.stuck = True
                self._block.interrupt()
                return
            # Its write may have to wait too, and is looked at like any other.
            self._keeping_alive = asyncio.ensure_future(self._keep_alive())
            left = self._patience
        self._timer = asyncio.get_running_loop().call_later(left, self._look)

    async def _keep_alive(self) -> None:
        try:
            await self._send(KEEP_ALIVE, more=True)
        except _ConnectionBroke:
            self._block.interrupt()


def _logged(error: BaseException) -> ChatServerError:
    """The public form of an error; the log gets those that are not meant for callers."""
    if not isinstance(error, ChatServerError):
        log.error("request failed", exc_info=error)
    return public_error(error)
