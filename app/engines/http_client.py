"""The HTTP client that talks to one engine: pool, deadlines, and errors of transport as ours.

It is aiohttp: of the clients kept on PyPI it adds least to each streamed token.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from app.engines.openai_wire import http_error
from app.errors import DeadlineExceeded, EngineFailed, EngineUnavailable, engine_lost

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT = 5.0
# Uvicorn, which SGLang runs on, closes connections that were idle for 5 s.
_POOL_IDLE = 4.0


class HTTPClient:
    """Requests to one base URL. Every method raises the errors of ``app.errors``.

    Args:
        url: base URL, without a slash at its end.
        api_key: bearer token that the server wants, if any.
        request_timeout: seconds that a whole answer may take.
        idle_timeout: seconds that a stream may be silent.
    """

    def __init__(
        self, url: str, *, api_key: str | None, request_timeout: float, idle_timeout: float
    ) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._request_timeout = request_timeout
        silence = min(idle_timeout, request_timeout)
        self._silence = silence
        self._limits = {
            stream: aiohttp.ClientTimeout(
                total=None if stream else request_timeout,
                connect=_CONNECT_TIMEOUT,
                sock_read=silence if stream else None,
            )
            for stream in (False, True)
        }
        self._opened: aiohttp.ClientSession | None = None
        self._hung_up: str | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        """The connection pool, opened on first use inside the running event loop."""
        if self._hung_up is not None:
            raise EngineUnavailable(self._hung_up, retry_after=1)
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                headers=self._headers,
                # The number of connections is bounded by admission, not by the pool.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_POOL_IDLE),
                auto_decompress=False,
                read_bufsize=2**18,
                trace_configs=[_note_reuse()],
            )
        return self._opened

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def hang_up(self, reason: str) -> None:
        """End every open request with this reason, and refuse new ones with it."""
        self._hung_up = reason
        await self.close()

    async def get_json(self, path: str, *, within: float) -> dict[str, Any]:
        """GET a JSON object, in at most ``within`` seconds.

        Raises:
            EngineFailed: a status other than 200, or no JSON object.
        """
        limits = aiohttp.ClientTimeout(total=within)
        with self._errors_of_transport():
            async with self._session.get(self.url + path, timeout=limits) as answer:
                body = await answer.read()
                if answer.status != 200:
                    raise EngineFailed(f"GET {path} of the engine answered {answer.status}.")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EngineFailed(f"GET {path} of the engine is no JSON object.") from error

    async def post_json(self, path: str, body: dict[str, object], *, within: float) -> None:
        """POST a JSON object and care for nothing but that it arrived."""
        limits = aiohttp.ClientTimeout(total=within)
        with self._errors_of_transport():
            async with self._session.post(self.url + path, json=body, timeout=limits) as answer:
                await answer.read()

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes, *, stream: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; its answer has status 200 and is still to be read.

        Raises:
            ChatServerError: the engine refused, or something went wrong on the way, or it took
                too long.
        """
        with self._errors_of_transport():
            # Of a stream too, the head has a limit, however slowly it drips in.
            async with asyncio.timeout(self._request_timeout):
                answer = await self._send(method, path, body, self._limits[stream])
            async with answer:
                with _ending_with_connection(answer):
                    if answer.status != 200:
                        async with asyncio.timeout(self._silence):
                            refusal = await answer.read()
                        log.warning("engine answered %s with %d", path, answer.status)
                        log.debug("its words: %r", refusal[:1000])
                        again = answer.headers.get("Retry-After")
                        raise http_error(answer.status, refusal, again)
                    yield answer

    async def chunks(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The body as it arrives, until the deadline of the whole answer.

        The clock is read at each chunk. A timer would fire wherever this task happens to be,
        which need not be here, and end the caller instead.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request_timeout
        async for chunk in answer.content.iter_any():
            if loop.time() > deadline:
                raise DeadlineExceeded("The answer took longer than allowed.")
            yield chunk
        if self._hung_up is not None:  # an answer without a length seems to have ended well
            raise EngineUnavailable(self._hung_up, retry_after=1)

    async def _send(
        self, method: str, path: str, body: bytes, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request, once more if its kept-alive connection proves to be closed.

        The engine closes idle connections when it likes, also in the moment of our next request.
        """
        connection = _Connection()

        def send() -> Awaitable[aiohttp.ClientResponse]:
            return self._session.request(
                method,
                self.url + path,
                data=body or None,
                headers={"Content-Type": "application/json"} if body else None,
                timeout=limits,
                trace_request_ctx=connection,
            )

        try:
            return await send()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not connection.reused:
                raise
            return await send()

    @contextlib.contextmanager
    def _errors_of_transport(self) -> Iterator[None]:
        """Errors of aiohttp as ours. Their texts are often empty, so the log gets the class."""
        try:
            yield
        except aiohttp.SocketTimeoutError as error:
            raise DeadlineExceeded("The engine was silent for too long.") from error
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            raise EngineUnavailable("The engine can't be reached.", retry_after=5) from error
        except aiohttp.ClientError as error:
            if self._hung_up is not None:
                raise EngineUnavailable(self._hung_up, retry_after=1) from error
            log.warning("connection to the engine broke: %s", type(error).__name__)
            raise engine_lost() from error
        except TimeoutError as error:
            raise DeadlineExceeded("The answer took longer than allowed.") from error


@contextlib.contextmanager
def _ending_with_connection(answer: aiohttp.ClientResponse) -> Iterator[None]:
    """Have a body that can get no more bytes end with an error.

    After a body that breaks its own framing, such as a chunk without a length, aiohttp 3.14 closes
    the connection and tells nobody: its reader waits for ever, and no time limit on the socket
    applies any more.
    """
    connection, body = answer.connection, answer.content
    if connection is None or connection.protocol is None:  # the whole body is here
        yield
        return

    def end(_: object = None) -> None:
        if not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the body broke its own framing"))

    closed = connection.protocol.closed
    if closed is None:
        end()
        yield
        return
    # The future is the connection's, which serves one request after another.
    closed.remove_done_callback(_note_end)
    closed.add_done_callback(_note_end)
    closed.add_done_callback(end)
    try:
        yield
    finally:
        closed.remove_done_callback(end)


def _note_end(closed: asyncio.Future[None]) -> None:
    """Look at how a connection was lost, or asyncio complains that nobody did."""
    if not closed.cancelled():
        closed.exception()


@dataclass
class _Connection:
    """Where a request went: over a fresh connection, or one that had served before."""

    reused: bool = False


def _note_reuse() -> aiohttp.TraceConfig:
    async def note(_: aiohttp.ClientSession, context: Any, __: Any) -> None:
        if isinstance(context.trace_request_ctx, _Connection):
            context.trace_request_ctx.reused = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(note)
    return trace
