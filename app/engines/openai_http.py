"""An engine behind a URL: SGLang as our child or elsewhere, a router, any OpenAI-style server."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import msgspec

from app.engines.base import EngineInfo, JSONObject
from app.engines.http_client import HTTPClient
from app.engines.http_connection import Answer
from app.engines.openai_wire import completion_events
from app.engines.phases import Lifecycle, Phase, Status
from app.errors import (
    ChatServerError,
    DeadlineExceeded,
    EngineFailed,
    EngineUnavailable,
)
from app.events import Event, Finished
from app.ids import new_id
from app.sse import DONE, SSEDecoder

log = logging.getLogger(__name__)

_CHAT = "/v1/chat/completions"
_ABORTABLE = (_CHAT, "/v1/completions")
_ABORT_TIMEOUT = 5.0
_DISCOVERY_TIMEOUT = 5.0
# One that gives no sign of life may be about to come back, and its requests wait for it.
_TAKES_REQUESTS = frozenset({Phase.READY, Phase.DEGRADED, Phase.DRAINING})


class OpenAIEngine:
    """Generates with a server that speaks OpenAI's API, and SGLang's extensions where it has them.

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
        self._http = HTTPClient(
            url, api_key=api_key, request_timeout=request_timeout, idle_timeout=idle_timeout
        )
        self._info: EngineInfo | None = None
        self._aborts: set[asyncio.Task[None]] = set()
        self._life_path = "/v1/models"
        self._lifecycle = Lifecycle()

    @property
    def status(self) -> Status:
        """Where the engine is now."""
        return self._lifecycle.status

    def drain(self) -> None:
        """No longer be ready, and go on answering."""
        if not self._lifecycle.ending:
            self._lifecycle.enter(Phase.DRAINING, "finishing the open requests")

    @property
    def info(self) -> EngineInfo:
        """What the engine is, for those who want to ask it.

        Raises:
            EngineUnavailable: it is not known yet, or still works on our first requests, which may
                take minutes and fail.
        """
        if self._lifecycle.phase not in _TAKES_REQUESTS:
            raise self._not_up()
        return self.found

    @property
    def found(self) -> EngineInfo:
        """What :meth:`discover` found, while the engine is not ready too.

        Raises:
            EngineUnavailable: it was not asked, or did not answer.
        """
        if self._info is None:
            raise self._not_up()
        return self._info

    def _not_up(self) -> EngineUnavailable:
        return EngineUnavailable(
            "The engine is not up yet.", retry_after=self._seconds_until_ready()
        )

    def learn(self, *, takes_system: bool) -> None:
        """Remember what only trying shows, for as long as the engine is the same."""
        self._info = replace(self.found, takes_system=takes_system)

    def _seconds_until_ready(self) -> int:
        """When callers shall come back while it is not up."""
        return 5

    async def close(self) -> None:
        """Wait for aborts that are on their way and close the connections."""
        if self._aborts:
            await asyncio.wait(self._aborts, timeout=_ABORT_TIMEOUT)
        await self._http.close()

    def move_to(self, url: str) -> None:
        """From now on, ask the server at another base URL."""
        self.url = url
        self._http.move_to(url)

    async def hang_up(self) -> None:
        """End all requests that are open, and refuse new ones: the server is shutting down."""
        await self._http.hang_up("The server is shutting down; send the request again.")

    async def ask_for_life(self, within: float) -> None:
        """Put a question that only a working engine answers.

        Raises:
            DeadlineExceeded: no answer ``within`` so many seconds.
            EngineUnavailable: it can't be reached.
            EngineFailed: it refused, which an engine that is alive may do.
        """
        await self._http.get_json(self._life_path, within=within)

    async def discover(self) -> EngineInfo:
        """Ask the server what it is and serves.

        Raises:
            ChatServerError: it does not answer, or is no OpenAI-compatible server.
        """
        models = await self._http.get_json("/v1/models", within=_DISCOVERY_TIMEOUT)
        entries = models.get("data")
        names = tuple(
            str(entry["id"])
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, dict) and "id" in entry
        )
        if not names:
            raise EngineFailed(f"{self.url}/v1/models lists no model.")
        found = await self._discover_sglang(names) or EngineInfo("openai", names)
        if self._info is not None:  # asked again, and only ``learn`` knows better
            found = replace(found, takes_system=self._info.takes_system)
        self._info = found
        return found

    async def _discover_sglang(self, names: tuple[str, ...]) -> EngineInfo | None:
        # Renamed in 0.5; the old name is deprecated there.
        for path in ("/server_info", "/get_server_info"):
            try:
                server = await self._http.get_json(path, within=_DISCOVERY_TIMEOUT)
            except EngineFailed:
                continue
            if "version" in server:
                self._life_path = path
                return EngineInfo(
                    kind="sglang",
                    models=names,
                    version=str(server["version"]),
                    tool_call_parser=server.get("tool_call_parser"),
                    reasoning_parser=server.get("reasoning_parser"),
                    deterministic=bool(server.get("enable_deterministic_inference")),
                )
        return None

    async def complete(self, body: JSONObject) -> list[Event]:
        """All events of a plain answer."""
        async with self.request("POST", _CHAT, msgspec.json.encode(body)) as answer:
            events = completion_events(await answer.read())
        if not any(isinstance(event, Finished) for event in events):
            raise EngineFailed("The engine's answer has no choice that is complete.")
        return events

    async def stream(self, body: JSONObject) -> AsyncGenerator[list[Event], None]:
        """Events of a streamed answer, in batches as they came in."""
        body = body | {"stream": True, "stream_options": {"include_usage": True}}
        decoder = SSEDecoder()
        async with self.request("POST", _CHAT, msgspec.json.encode(body), stream=True) as answer:
            async for chunk in answer:
                batch: list[Event] = []
                for data in decoder.feed(chunk):
                    if data != DONE:
                        batch += completion_events(data)
                if batch:
                    yield batch

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes, *, stream: bool = False
    ) -> AsyncIterator[Answer]:
        """One request, aborted in the engine when its answer is not read to the end.

        Closing the connection is not enough: engines notice that seconds later, or never.

        Raises:
            ChatServerError: the engine refused, broke or was too slow.
        """
        rid = None
        if path in _ABORTABLE and self._info is not None and self._info.is_sglang:
            rid = new_id()
            body = with_rid(body, rid)
        try:
            connection = await self._http.ask(method, path, body, stream=stream)
            try:
                yield connection.answer
            finally:
                self._http.give_back(connection)
        except DeadlineExceeded:
            self._abort_soon(rid)
            raise
        except ChatServerError:
            raise  # the engine itself ended the request, or is gone
        except BaseException:
            self._abort_soon(rid)
            raise

    def _abort_soon(self, rid: str | None) -> None:
        if rid is None:
            return
        task = asyncio.ensure_future(self._abort(rid))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _abort(self, rid: str) -> None:
        try:
            await self._http.post_json("/abort_request", {"rid": rid}, within=_ABORT_TIMEOUT)
        except ChatServerError as error:
            log.warning("abort of %s failed: %s", rid, error.message)


def with_rid(body: bytes, rid: str) -> bytes:
    """The JSON object ``body`` with one more key at its end; nothing else is touched.

    Of two equal keys the last one counts, so a caller can't choose an id of its own, by which we
    would not find the request again, or find that of somebody else.
    """
    rest = body.rstrip()[:-1].rstrip()
    comma = b"" if rest.endswith(b"{") else b","
    return rest + comma + b'"rid":"' + rid.encode() + b'"}'
