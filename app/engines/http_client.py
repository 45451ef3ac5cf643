"""The HTTP client that talks to one engine: its connections, deadlines and errors."""

import asyncio
import logging
import ssl
from typing import Any
from urllib.parse import urlsplit

import msgspec

from app.engines.http_connection import Connection
from app.engines.openai_wire import http_error
from app.errors import ChatServerError, DeadlineExceeded, EngineFailed, EngineUnavailable

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
        self._api_key = api_key
        self._request_timeout = request_timeout
        self._silence = min(idle_timeout, request_timeout)
        # The number of connections is bounded by admission, not by the pool.
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._hung_up: str | None = None
        self._tls: ssl.SSLContext | None = None
        self.move_to(url)

    def move_to(self, url: str) -> None:
        """From now on, ask the server at another base URL."""
        parts = urlsplit(url)
        encrypted = parts.scheme == "https"
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (443 if encrypted else 80)
        self._encrypted = encrypted
        self._prefix = parts.path
        key = f"Authorization: Bearer {self._api_key}\r\n" if self._api_key else ""
        self._headers = (
            f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n{key}"
            "Accept: */*\r\nAccept-Encoding: identity\r\n"
        )
        self._close_idle()

    async def close(self) -> None:
        """Close the connections."""
        self._close_idle()
        for connection in list(self._busy):
            connection.abort()
        await asyncio.sleep(0)  # transports close in the loop's next round

    async def hang_up(self, reason: str) -> None:
        """End every open request with this reason, and refuse new ones with it."""
        self._hung_up = reason
        for connection in list(self._busy):
            connection.fail(EngineUnavailable(reason, retry_after=1))
        await self.close()

    async def get_json(self, path: str, *, within: float) -> dict[str, Any]:
        """GET a JSON object, in at most ``within`` seconds.

        Raises:
            EngineFailed: a status other than 200, or no JSON object.
        """
        status, body = await self._whole("GET", path, b"", within)
        if status != 200:
            raise EngineFailed(f"GET {path} of the engine answered {status}.")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EngineFailed(f"GET {path} of the engine is no JSON object.") from error

    async def post_json(self, path: str, body: dict[str, object], *, within: float) -> None:
        """POST a JSON object and care for nothing but that it arrived."""
        await self._whole("POST", path, msgspec.json.encode(body), within)

    async def ask(self, method: str, path: str, body: bytes, *, stream: bool) -> Connection:
        """Send a request; its answer has status 200 and is still to be read.

        Returns:
            A connection with the answer on it, to be given to :meth:`give_back` in any case.

        Raises:
            ChatServerError: the engine refused, or something went wrong on the way, or it took
                too long.
        """
        silence = self._silence if stream else None
        connection = await self._send(method, path, body, self._request_timeout, silence)
        answer = connection.answer
        if answer.status == 200:
            return connection
        try:
            answer.hurry(self._silence)
            refusal = await answer.read()
        finally:
            self.give_back(connection)
        log.warning("engine answered %s with %d", path, answer.status)
        log.debug("its words: %r", refusal[:1000])
        raise http_error(answer.status, refusal, answer.header(b"retry-after"))

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request; one whose answer was not read whole is closed."""
        self._busy.discard(connection)
        if not connection.release():
            return
        if self._hung_up is not None:
            connection.abort()
            return
        connection.idle_since = _now()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_POOL_IDLE, self._close_old)

    async def _whole(self, method: str, path: str, body: bytes, within: float) -> tuple[int, bytes]:
        connection = await self._send(method, path, body, within, None)
        try:
            return connection.answer.status, await connection.answer.read()
        finally:
            self.give_back(connection)

    async def _send(
        self, method: str, path: str, body: bytes, within: float, silence: float | None
    ) -> Connection:
        """Send a request and wait for its answer's head.

        A kept connection that proves to be closed is no error: the engine closes idle ones when it
        likes, also in the moment of our next request, which then goes over a fresh one.
        """
        deadline = _now() + within
        head = self._head(method, path, len(body))
        connection = self._kept()
        reused = connection is not None
        while True:
            if connection is None:
                connection = await self._connect(deadline)
            self._busy.add(connection)
            answer = connection.ask(head, body, deadline=deadline, silence=silence)
            try:
                await answer.head()
            except EngineUnavailable:
                self.give_back(connection)
                if not reused or answer.touched or self._hung_up is not None:
                    raise
                connection, reused = None, False
            except BaseException:
                self.give_back(connection)
                raise
            else:
                return connection

    def _head(self, method: str, path: str, size: int) -> bytes:
        content = f"Content-Type: application/json\r\nContent-Length: {size}\r\n" if size else ""
        return f"{method} {self._prefix}{path}{self._headers}{content}\r\n".encode("ascii")

    async def _connect(self, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        if self._encrypted and self._tls is None:
            self._tls = ssl.create_default_context()
        at = min(deadline, loop.time() + _CONNECT_TIMEOUT)
        try:
            async with asyncio.timeout_at(at):
                _, connection = await loop.create_connection(
                    Connection, self._host, self._port, ssl=self._tls if self._encrypted else None
                )
        except TimeoutError as error:
            if at == deadline:
                raise DeadlineExceeded("The answer took longer than allowed.") from error
            raise _unreachable() from error
        except OSError as error:
            raise _unreachable() from error
        if self._hung_up is not None:
            connection.abort()
        self._refuse_when_hung_up()
        return connection

    # --- Connections that wait for their next request, the one that was used last at the end

    def _kept(self) -> Connection | None:
        self._refuse_when_hung_up()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                if _now() - connection.idle_since < _POOL_IDLE:
                    return connection
                connection.abort()
        return None

    def _close_old(self) -> None:
        """Close what has been idle for too long, and look again while there is anything."""
        old = _now() - _POOL_IDLE
        for connection in self._idle:
            if connection.idle_since <= old:
                connection.abort()
        self._idle = [connection for connection in self._idle if connection.is_open]
        self._sweep = None
        if self._idle:
            wait = self._idle[0].idle_since - old
            self._sweep = asyncio.get_running_loop().call_later(wait, self._close_old)

    def _close_idle(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle = []
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _refuse_when_hung_up(self) -> None:
        if self._hung_up is not None:
            raise EngineUnavailable(self._hung_up, retry_after=1)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _unreachable() -> ChatServerError:
    return EngineUnavailable("The engine can't be reached.", retry_after=5)
