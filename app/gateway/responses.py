"""Answers on the wire, and what happens to them when the client leaves."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import ChatServerError, Overloaded, RequestCancelled, public_error
from app.gateway.connection import abort_connection
from app.schemas.chat_agent_answer import encode
from app.sse import DONE_EVENT, KEEP_ALIVE, encode_event

log = logging.getLogger(__name__)

T = TypeVar("T")
JSONObject = dict[str, object]
ErrorBody = Callable[[ChatServerError], JSONObject]
ErrorForm = Callable[[str], ErrorBody]
"""From a path to how errors are worded there."""

# Told to proxies, so that tokens are not collected before they are passed on.
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class ASCIIJSONResponse(Response):
    """JSON in ASCII: raw U+2028 and U+0085 break clients that split text lines."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Encode the content."""
        return encode(content)


def mlflow_error(error: ChatServerError) -> JSONObject:
    """The error as MLflow's scoring server words it."""
    return {"error_code": error.kind.code, "message": error.message}


def openai_error(error: ChatServerError) -> JSONObject:
    """The error as OpenAI's API words it."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind.openai_type,
            "param": error.field,
            "code": error.kind.code.lower(),
        }
    }


def error_body_for(path: str) -> ErrorBody:
    """How errors are worded in the part of the API that ``path`` belongs to."""
    return openai_error if path.startswith("/v1/") else mlflow_error


def openai_everywhere(_: str) -> ErrorBody:
    """For servers whose every route is OpenAI's (``INVOCATIONS=openai``)."""
    return openai_error


def error_response(error: ChatServerError, body: ErrorBody) -> Response:
    """The error as a whole answer."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.kind.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.kind.status == 408:
        headers["Connection"] = "close"  # what is still to come is no new request
    if isinstance(error, Overloaded) and error.reason is not None:
        headers |= {"X-Overload-Reason": error.reason, "X-Queue-Depth": str(error.queued)}
    return ASCIIJSONResponse(body(error), status_code=error.kind.status, headers=headers)


async def unless_disconnected(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled when the client leaves.

    Raises:
        RequestCancelled: the client left.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RequestCancelled("The client closed the request.")
        return task.result()
    finally:
        await _cancel(gone)
        await _cancel(task)


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
        gone = asyncio.ensure_future(_disconnected(receive))
        wire = _Wire(send, self._slow_after)
        sending = asyncio.ensure_future(self._send(scope, receive, send, wire))
        stuck = asyncio.ensure_future(wire.stuck.wait())
        try:
            await asyncio.wait({gone, sending, stuck}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            elif stuck.done():
                log.warning("cut off: the client read nothing for %g s", self._slow_after)
                abort_connection(scope)
        except (OSError, _ConnectionBroke):
            pass  # the same as a client that left
        finally:
            await _cancel(gone)
            await _cancel(stuck)
            await _cancel(sending)
            await self._events.aclose()

    async def _send(self, scope: Scope, receive: Receive, send: Send, wire: "_Wire") -> None:
        first = asyncio.ensure_future(anext(self._events, b""))
        try:
            await asyncio.wait({first}, timeout=self._patience)
            if first.done() and (error := first.exception()) is not None:
                response = error_response(_logged(error), self._error_body)
                await response(scope, receive, send)
                return
            await self._send_stream(first, wire)
        finally:
            await _cancel(first)

    async def _send_stream(self, first: asyncio.Future[bytes], wire: "_Wire") -> None:
        await wire.start(self.raw_headers)
        keeping_alive = asyncio.ensure_future(wire.keep_alive(self._patience))
        end = self._done
        try:
            await wire.write(await first)
            async for frame in self._events:
                await wire.write(frame)
        except _ConnectionBroke:
            raise
        except Exception as error:
            body = self._error_body(_logged(error))
            await wire.write(encode_event(encode(body if "error" in body else {"error": body})))
            end = DONE_EVENT  # a relayed stream that broke off did not bring its own
        finally:
            await _cancel(keeping_alive)
        await wire.end(end)


class _ConnectionBroke(Exception):
    """The client can't be written to; told apart from errors of what we write."""


class _Wire:
    """The body of one streamed answer: when it was last written to, and whether that is stuck."""

    def __init__(self, send: Send, slow_after: float) -> None:
        self._asgi_send = send
        self._slow_after = slow_after
        self._last_write = 0.0
        self._writing = False
        self.stuck = asyncio.Event()

    async def _send(self, message: Message) -> None:
        self._last_write = asyncio.get_running_loop().time()
        self._writing = True
        try:
            await self._asgi_send(message)
        except OSError as error:
            raise _ConnectionBroke from error
        self._writing = False

    async def start(self, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def keep_alive(self, interval: float) -> None:
        """Fill silences, and see whether a write gets through at all.

        One timer for the stream, none for each of its pieces.
        """
        loop = asyncio.get_running_loop()
        while True:
            due = self._last_write + (self._slow_after if self._writing else interval)
            await asyncio.sleep(due - loop.time())
            silent = loop.time() - self._last_write
            if self._writing and silent >= self._slow_after:
                self.stuck.set()
                return
            if not self._writing and silent >= interval:
                try:
                    async with asyncio.timeout(self._slow_after):
                        await self.write(KEEP_ALIVE)
                except TimeoutError:
                    self.stuck.set()
                    return


def _logged(error: BaseException) -> ChatServerError:
    """The public form of an error; the log gets those that are not meant for callers."""
    if not isinstance(error, ChatServerError):
        log.error("request failed", exc_info=error)
    return public_error(error)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(task: asyncio.Future[T]) -> None:
    """End a task and wait until it has ended; its result no longer matters."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # else asyncio complains in the log that nobody looked at it
