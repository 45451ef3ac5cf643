"""Speaks to any OpenAI-compatible server over HTTP: SGLang as our child or elsewhere, a router.

The client is aiohttp: of the clients kept on PyPI it adds least to each streamed token.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from app.engines.base import EngineInfo, JSONObject
from app.engines.openai_wire import completion_events, http_error
from app.errors import DeadlineExceeded, EngineFailed, EngineUnavailable
from app.events import Event
from app.sse import DONE, SSEDecoder

log = logging.getLogger(__name__)

CHAT = "/v1/chat/completions"
_ABORTABLE = (CHAT, "/v1/completions")
_CONNECT_TIMEOUT = 5.0
_ABORT_TIMEOUT = 5.0


class OpenAIEngine:
    """An engine behind a URL.

    Args:
        url: base URL without ``/v1``.
        api_key: bearer token that the server wants, if any.
        request_timeout: seconds that a whole answer may take.
        idle_timeout: seconds that a stream may be silent.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        request_timeout: float = 600.0,
        idle_timeout: float = 120.0,
    ) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._request_timeout = request_timeout
        self._idle_timeout = idle_timeout
        self._session: aiohttp.ClientSession | None = None
        self._info: EngineInfo | None = None
        self._aborts: set[asyncio.Task[None]] = set()

    @property
    def info(self) -> EngineInfo:
        """What the engine is, as found by :meth:`discover`."""
        if self._info is None:
            raise EngineUnavailable("The engine is not up yet.", retry_after=5)
        return self._info

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connection pool, opened on first use inside the running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                # The number of connections is bounded by admission, not by the pool.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                # Requests carry their own deadlines; a long generation is no stale socket.
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_TIMEOUT),
                auto_decompress=False,
                read_bufsize=2**18,
            )
        return self._session

    async def close(self) -> None:
        """Wait for aborts that are on their way and close the connections."""
        if self._aborts:
            await asyncio.wait(self._aborts, timeout=_ABORT_TIMEOUT)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def discover(self, within: float = 5.0) -> EngineInfo:
        """Ask the server what it is and serves.

        Raises:
            EngineUnavailable: it does not answer.
            EngineFailed: it answers, but is no OpenAI-compatible server.
        """
        models = await self.get_json("/v1/models", within=within)
        entries = models.get("data")
        names = tuple(
            str(entry["id"])
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict) and "id" in entry
        )
        if not names:
            raise EngineFailed(f"{self.url}/v1/models lists no model.")
        self._info = await self._discover_sglang(names, within) or EngineInfo("openai", names)
        return self._info

    async def _discover_sglang(self, names: tuple[str, ...], within: float) -> EngineInfo | None:
        # Renamed in 0.5; the old name is deprecated there.
        for path in ("/server_info", "/get_server_info"):
            try:
                server = await self.get_json(path, within=within)
            except EngineFailed:
                continue
            if "version" in server:
                return EngineInfo(
                    kind="sglang",
                    models=names,
                    version=str(server["version"]),
                    tool_call_parser=_text(server.get("tool_call_parser")),
                    reasoning_parser=_text(server.get("reasoning_parser")),
                    deterministic=bool(server.get("enable_deterministic_inference")),
                )
        return None

    async def get_json(self, path: str, *, within: float) -> dict[str, Any]:
        """GET a JSON object from the engine.

        Raises:
            EngineUnavailable: no answer ``within`` so many seconds.
            EngineFailed: a status other than 200, or no JSON object.
        """
        with _errors_of_transport():
            async with asyncio.timeout(within), self.session.get(self.url + path) as answer:
                body = await answer.read()
                if answer.status != 200:
                    raise EngineFailed(f"GET {path} of the engine answered {answer.status}.")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EngineFailed(f"GET {path} of the engine is no JSON object.") from error

    async def complete(self, body: JSONObject) -> list[Event]:
        """All events of a plain answer."""
        async with self.request("POST", CHAT, json.dumps(body).encode()) as answer:
            return completion_events(await answer.read())

    async def stream(self, body: JSONObject) -> AsyncGenerator[list[Event], None]:
        """Events of a streamed answer, in batches as they came in."""
        body = body | {"stream": True, "stream_options": {"include_usage": True}}
        decoder = SSEDecoder()
        async with self.request("POST", CHAT, json.dumps(body).encode(), stream=True) as answer:
            async for chunk in self.chunks(answer):
                batch: list[Event] = []
                for data in decoder.feed(chunk):
                    if data != DONE:
                        batch += completion_events(data)
                if batch:
                    yield batch

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes, *, stream: bool = False
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request with its deadline, and an abort when its answer is not read to the end.

        Raises:
            ChatServerError: any status other than 200, or no answer in time.
        """
        rid = self._new_rid(path)
        silence = min(self._idle_timeout, self._request_timeout)
        timeout = aiohttp.ClientTimeout(
            total=None if stream else self._request_timeout,
            connect=_CONNECT_TIMEOUT,
            sock_read=silence if stream else None,
        )
        refused = False
        try:
            with _errors_of_transport():
                async with self.session.request(
                    method,
                    self.url + path,
                    data=with_rid(body, rid) if rid else body or None,
                    headers={"Content-Type": "application/json"} if body else None,
                    timeout=timeout,
                ) as answer:
                    if answer.status != 200:
                        refused = True
                        raise self._refusal(answer, await answer.read())
                    yield answer
        except BaseException:
            if rid is not None and not refused:
                self._abort_soon(rid)
            raise

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

    def _new_rid(self, path: str) -> str | None:
        """An id to abort a request by, where the engine knows such."""
        if path in _ABORTABLE and self._info is not None and self._info.is_sglang:
            return uuid4().hex
        return None

    def _abort_soon(self, rid: str) -> None:
        """Tell the engine to stop; closing the connection alone is noticed late or never."""
        task = asyncio.ensure_future(self.abort(rid))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def abort(self, rid: str) -> None:
        """End a request in the engine. Failing to do so is logged, not raised."""
        try:
            timeout = aiohttp.ClientTimeout(total=_ABORT_TIMEOUT)
            url = self.url + "/abort_request"
            async with self.session.post(url, json={"rid": rid}, timeout=timeout) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            log.warning("abort of %s failed: %s", rid, type(error).__name__)

    def _refusal(self, answer: aiohttp.ClientResponse, data: bytes) -> Exception:
        log.warning("engine answered %d: %s", answer.status, data[:500].decode("utf-8", "replace"))
        return http_error(answer.status, data, answer.headers.get("Retry-After"))


@contextlib.contextmanager
def _errors_of_transport() -> Iterator[None]:
    """Aiohttp's and asyncio's errors as ours; the class goes to the log, as texts may be empty."""
    try:
        yield
    except aiohttp.SocketTimeoutError as error:
        raise DeadlineExceeded("The engine was silent for too long.") from error
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
        raise EngineUnavailable("The engine can't be reached.", retry_after=5) from error
    except aiohttp.ClientError as error:
        log.warning("connection to the engine broke: %s", type(error).__name__)
        raise EngineUnavailable(
            "The engine went away before the answer was complete.", retry_after=5
        ) from error
    except TimeoutError as error:
        raise DeadlineExceeded("The answer took longer than allowed.") from error


def with_rid(body: bytes, rid: str) -> bytes:
    """The JSON object ``body`` with one more key at its front; nothing else is touched."""
    rest = body.lstrip()[1:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b'{"rid":"' + rid.encode() + b'"' + comma + rest


def _text(value: object) -> str | None:
    return str(value) if value else None
