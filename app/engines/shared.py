"""One engine for all processes of a host that want the same one.

MLflow's servers load a model in every worker process. The first one to take the lock starts
SGLang and writes down where it listens; the others attach to that address. The lock belongs to
the operating system, so it is free the moment its holder is gone, however it ended: one of the
others then takes it and starts the engine anew.
"""

import asyncio
import contextlib
import getpass
import json
import os
import tempfile
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path

from filelock import FileLock, Timeout

from app.engines.attached import AttachedEngine
from app.engines.base import EngineInfo, JSONObject
from app.engines.phases import Phase, Status
from app.engines.sglang import SGLangEngine
from app.errors import EngineUnavailable
from app.events import Event
from app.settings import Settings

_POLL_INTERVAL = 0.5
# Settings of the gateway, with which the same engine may be shared.
_NOT_THE_ENGINES = frozenset(
    {
        "host", "port", "api_key", "api_key_file", "allow_no_api_key", "published_on",
        "media_hosts", "invocations", "log_level", "max_body_bytes", "request_timeout",
        "idle_timeout", "keep_alive_interval", "shutdown_delay", "shutdown_grace",
        "engine_start_timeout",
        "engine_stop_timeout", "engine_max_restarts", "engine_hang_timeout", "engine_api_key",
        "engine_url", "max_messages", "max_concurrent_requests", "max_queued_requests",
        "queue_timeout", "max_requests_per_key", "receive_timeout", "slow_client_timeout",
    }
)  # fmt: skip


class SharedEngine:
    """An engine that this process owns, or that another process of this host owns.

    Args:
        settings: of the engine; processes with equal ones share one engine.
        directory: for lock and address; by default one of this user in the temporary folder.
    """

    def __init__(self, settings: Settings, directory: Path | None = None) -> None:
        self._settings = settings
        folder = directory or Path(tempfile.gettempdir()) / f"chat-server-{getpass.getuser()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = _fingerprint(settings)
        self._address = folder / f"{name}.json"
        # Released by the kernel when the process ends, also after SIGKILL.
        self._lock = FileLock(folder / f"{name}.lock", thread_local=False)
        self._engine: SGLangEngine | AttachedEngine | None = None
        self._running: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self._status = Status(Phase.STARTING, "not started yet")

    @property
    def url(self) -> str:
        """Where the engine listens."""
        return self._current.url

    @property
    def status(self) -> Status:
        """Where the engine is now."""
        return self._engine.status if self._engine is not None else self._status

    @property
    def info(self) -> EngineInfo:
        """What the engine is."""
        return self._current.info

    @property
    def _current(self) -> SGLangEngine | AttachedEngine:
        if self._engine is None:
            raise EngineUnavailable(f"The engine is not up: {self._status.reason}.", retry_after=5)
        return self._engine

    async def complete(self, body: JSONObject) -> list[Event]:
        """All events of a plain answer."""
        return await self._current.complete(body)

    def stream(self, body: JSONObject) -> AsyncGenerator[list[Event], None]:
        """Events of a streamed answer."""
        return self._current.stream(body)

    async def start(self) -> None:
        """Begin to start the engine, or to look for it."""
        self._running = asyncio.create_task(self._run())

    @property
    def restarts(self) -> int:
        """How often this process has started the engine again."""
        return self._engine.restarts if self._engine is not None else 0

    def drain(self) -> None:
        """Begin to shut down."""
        if self._engine is not None:
            self._engine.drain()

    async def hang_up(self) -> None:
        """End the open requests of this process."""
        if self._engine is not None:
            await self._engine.hang_up()

    def kill(self) -> None:
        """Kill the engine if it is ours."""
        if self._engine is not None:
            self._engine.kill()

    async def failure(self) -> str:
        """Wait until the engine is given up, and say why."""
        await self._failed.wait()
        return self._status.reason

    async def stop(self) -> None:
        """End the engine if it is ours, and let go of it if it is not."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        while not self._take_lock():
            await self._use_others_engine()
        try:
            reason = await self._own_engine()
        finally:
            self._address.unlink(missing_ok=True)
            self._lock.release()
        self._status = Status(Phase.FAILED, reason)
        self._failed.set()

    def _take_lock(self) -> bool:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    async def _own_engine(self) -> str:
        """Run the engine until it is given up; return why."""
        engine = SGLangEngine(self._settings)
        async with self._using(engine):
            failure = asyncio.ensure_future(engine.failure())
            try:
                while not failure.done():
                    # It may move: somebody else may have its port when it is started again.
                    if self._read_address() != engine.url:
                        self._write_address(engine.url)
                    await asyncio.wait({failure}, timeout=_POLL_INTERVAL)
                return failure.result()
            finally:
                failure.cancel()

    async def _use_others_engine(self) -> None:
        """Use the engine of the lock's holder until the lock is free or the address changes."""
        url = self._read_address()
        if url is None:
            self._status = Status(Phase.STARTING, "another process is about to start the engine")
            await asyncio.sleep(_POLL_INTERVAL)
            return
        engine = AttachedEngine(
            url,
            request_timeout=self._settings.request_timeout,
            idle_timeout=self._settings.idle_timeout,
        )
        async with self._using(engine):
            while self._read_address() == url:
                await asyncio.sleep(_POLL_INTERVAL)
                if self._take_lock():
                    # Its holder is gone, and its engine with it: the kernel saw to that.
                    self._address.unlink(missing_ok=True)
                    self._lock.release()

    @contextlib.asynccontextmanager
    async def _using(self, engine: SGLangEngine | AttachedEngine) -> AsyncGenerator[None, None]:
        await engine.start()
        self._engine = engine
        try:
            yield
        finally:
            self._engine, self._status = None, engine.status
            await engine.stop()

    def _write_address(self, url: str) -> None:
        scratch = self._address.with_suffix(".new")
        scratch.write_text(json.dumps({"url": url, "pid": os.getpid()}), encoding="utf-8")
        scratch.replace(self._address)

    def _read_address(self) -> str | None:
        try:
            return str(json.loads(self._address.read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            return None


def _fingerprint(settings: Settings) -> str:
    facts = settings.model_dump(mode="json", exclude=set(_NOT_THE_ENGINES))
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
