"""One HTTP/1.1 connection to an engine, and the answer that comes in on it.

It is asyncio's protocol with httptools' parser, as uvicorn has them on its side. A general client
costs more for each streamed token than all else that is done with it (docs/performance.md).
"""

import asyncio
import logging
from typing import cast

import httptools

from app.errors import ChatServerError, DeadlineExceeded, EngineUnavailable, engine_lost

log = logging.getLogger(__name__)

_UNREAD_LIMIT = 256 * 1024
"""Bytes that may wait to be read before the socket is left alone, which stops the engine."""
_HEAD_LIMIT = 64 * 1024
"""Bytes of status line and headers after which no answer is expected any more."""


class Answer:
    """The answer to one request, which arrives while it is read.

    It ends once, complete or with an error; the error is raised when all that came before it was
    read. Iterating gives the body as it arrives, what came together in one piece.

    Args:
        transport: what the answer comes over. It is aborted when the answer ends with an error.
        deadline: when the whole answer must be here, in the loop's time.
        silence: seconds that may pass without a byte while nothing waits to be read; None for any.
    """

    status = 0
    """The HTTP status; 0 until the head is here."""
    touched = False
    """Whether any byte has arrived."""
    complete = False
    """Whether all of it has arrived."""

    def __init__(
        self, transport: asyncio.Transport, *, deadline: float, silence: float | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._wanted_whole = False
        self._keep_alive = False
        self._excess = False
        self._error: ChatServerError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = deadline
        self._silence = silence
        self._last_read = self._loop.time()
        self._timer = self._loop.call_at(self._next_look(), self._look)

    # --- For whoever asked

    def header(self, name: bytes) -> str | None:
        """A header's value. The name is in lower case."""
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            ChatServerError: the answer ended before.
        """
        while not self.status:
            await self._more()

    async def read(self) -> bytes:
        """The rest of the body.

        Raises:
            ChatServerError: it broke off, or took too long.
        """
        self._wanted_whole = True
        if self._paused:
            self._resume()
        while not self.complete:
            await self._more()
        return self._take()

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> bytes:
        while not self._body:
            if self.complete:
                raise StopAsyncIteration
            await self._more()
        return self._take()

    def hurry(self, seconds: float) -> None:
        """Let the rest take at most so long."""
        self._deadline = min(self._deadline, self._loop.time() + seconds)
        self._timer.cancel()
        self._timer = self._loop.call_at(self._next_look(), self._look)

    def fail(self, error: ChatServerError) -> None:
        """End the answer with this error, unless it has ended."""
        if not self.complete and self._error is None:
            self._error = error
            self._transport.abort()
            self._wake()

    def close(self) -> bool:
        """Give the answer up; whether its connection can carry another request."""
        self._timer.cancel()
        reusable = (
            self.complete
            and not self._excess
            and self._keep_alive
            and not self._transport.is_closing()
            # An answer that came before all of the request was sent.
            and not self._transport.get_write_buffer_size()
        )
        if not reusable:
            self._transport.abort()
        elif self._paused:
            self._resume()
        return reusable

    # --- For the connection

    def feed(self, data: bytes) -> None:
        """Take bytes that arrived."""
        self._last_read = self._loop.time()
        self.touched = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:
                self._excess = True
            else:
                log.warning("the engine's answer is no HTTP: %s", type(error).__name__)
                self.fail(engine_lost())
        if not self.status:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_LIMIT:
                log.warning("the engine's answer has a head without an end")
                self.fail(engine_lost())
        self._wake()
        if self._unread > _UNREAD_LIMIT and not self._wanted_whole and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def end(self, lost: Exception | None) -> None:
        """Take the end of the connection."""
        if self.complete or self._error is not None:
            return
        if lost is None and self.status and self._lasts_until_end:
            self.complete = True
            self._wake()
            return
        log.warning("connection to the engine broke: %s", type(lost).__name__ if lost else "closed")
        self.fail(engine_lost())

    # --- For the parser

    def on_message_begin(self) -> None:
        """A second answer was not asked for: its first byte ends the parsing."""
        if self.complete:
            raise ValueError("an answer that nobody asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is here, or one that only announces it (status 1xx)."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
        else:
            self._headers.clear()

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body.append(data)
        self._unread += len(data)

    def on_message_complete(self) -> None:
        """The body is complete."""
        if self.status:
            self.complete = True
            self._keep_alive = self._parser.should_keep_alive()

    # --- Inside

    @property
    def _lasts_until_end(self) -> bool:
        """Whether the end of the body is the connection's: nothing else says where it is."""
        return b"content-length" not in self._headers and b"transfer-encoding" not in self._headers

    def _take(self) -> bytes:
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        self._body = []
        self._unread = 0
        # The engine may have been kept waiting until now.
        self._last_read = self._loop.time()
        if self._paused:
            self._resume()
        return data

    def _resume(self) -> None:
        self._paused = False
        self._transport.resume_reading()

    async def _more(self) -> None:
        """Wait until something has changed."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _next_look(self) -> float:
        if self._silence is None:
            return self._deadline
        return min(self._deadline, self._last_read + self._silence)

    def _look(self) -> None:
        """See whether it takes too long: one timer for an answer, none for each of its pieces."""
        now = self._loop.time()
        if self._body and not self._wanted_whole:
            self._last_read = now  # it is we who keep the engine waiting
        if now >= self._deadline:
            self.fail(DeadlineExceeded("The answer took longer than allowed."))
        elif now >= self._next_look():
            self.fail(DeadlineExceeded("The engine was silent for too long."))
        else:
            self._timer = self._loop.call_at(self._next_look(), self._look)


class Connection(asyncio.Protocol):
    """A connection, which carries one request after another."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self.idle_since = 0.0
        """When its last answer was complete, in the loop's time."""

    @property
    def answer(self) -> Answer:
        """The answer that is under way."""
        if self._answer is None:
            raise RuntimeError("nothing was asked on this connection")
        return self._answer

    @property
    def is_open(self) -> bool:
        """Whether a request can be tried."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(
        self, head: bytes, body: bytes, *, deadline: float, silence: float | None = None
    ) -> Answer:
        """Send a request.

        Args:
            head: request line and headers, with the blank line after them.
            body: what follows it.
            deadline: see :class:`Answer`.
            silence: see :class:`Answer`.
        """
        if self._transport is None:  # lost since somebody looked
            raise EngineUnavailable("The engine can't be reached.", retry_after=5)
        self._answer = Answer(self._transport, deadline=deadline, silence=silence)
        self._transport.writelines((head, body))
        return self._answer

    def release(self) -> bool:
        """Give up the answer; whether the connection can carry another request."""
        answer, self._answer = self._answer, None
        return answer is not None and answer.close()

    def fail(self, error: ChatServerError) -> None:
        """End an answer that is under way with this error, and the connection."""
        if self._answer is not None:
            self._answer.fail(error)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        """Take bytes, which belong to an answer or to nothing."""
        if self._answer is None:
            self.abort()
        else:
            self._answer.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._transport = None
        if self._answer is not None:
            self._answer.end(exc)
