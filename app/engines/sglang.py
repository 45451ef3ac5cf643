"""SGLang as our own child process: started, watched, started again when lost, and ended."""

import asyncio
import logging
import math
import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from app.engines.child import ChildProcess
from app.engines.lifecycle import warm_up
from app.engines.openai_http import OpenAIEngine
from app.engines.phases import Phase, Status
from app.engines.restarts import Restarts
from app.engines.sglang_start import start_sglang
from app.engines.watchdog import Watchdog, until_a_worker_is_gone
from app.errors import ChatServerError, EngineFailed
from app.settings import Settings

log = logging.getLogger(__name__)

_POLL_INTERVAL = 0.5
# The longest that was measured is 102 s: kernels that are compiled at their first use.
_WARM_UP_WITHIN = 600.0
_SHARDS = re.compile(r"shards:.*?\b(\d+/\d+)\b")


@dataclass(frozen=True)
class Loss:
    """Why an engine is not there any more."""

    reason: str
    by_itself: bool = True
    """It came without a cause that a second start would meet again."""
    responsive: bool = True
    """Whether the process may still react to SIGTERM."""


class SGLangEngine(OpenAIEngine):
    """One SGLang server on the loopback interface, for one model.

    An engine that is lost is started again, ``engine_max_restarts`` times in a row. One that was
    never ready is so only when it was ended from outside, by a signal: what it says itself, a
    wrong argument or too little memory, it would say again.
    """

    def __init__(self, settings: Settings) -> None:
        self._port = settings.engine_port or free_port()
        super().__init__(
            f"http://127.0.0.1:{self._port}",
            request_timeout=settings.request_timeout,
            idle_timeout=settings.idle_timeout,
        )
        self._settings = settings
        self._restarts = Restarts(settings.engine_max_restarts)
        self._child: ChildProcess | None = None
        self._running: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self._was_ready = False
        self._began = time.monotonic()
        self._needed: float | None = None

    @property
    def status(self) -> Status:
        """Where the engine is, with its last log lines until it is ready."""
        now = self._lifecycle.status
        if self._child is None or now.phase is Phase.READY:
            return now
        shards = [found for line in self._child.tail for found in _SHARDS.findall(line)]
        progress = shards[-1] if shards and now.phase is Phase.LOADING else None
        return replace(now, log_tail=self._child.tail[-5:], progress=progress)

    @property
    def restarts(self) -> int:
        """How often it was lost and started again."""
        return self._restarts.total

    async def start(self) -> None:
        """Begin to bring the engine up."""
        self._running = asyncio.create_task(self._run())

    async def failure(self) -> str:
        """Wait until the engine is given up, and say why."""
        await self._failed.wait()
        return self._lifecycle.status.reason

    async def stop(self) -> None:
        """End the engine's whole process group."""
        self.drain()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        if self._child is not None:
            await self._child.stop(self._settings.engine_stop_timeout)
        await self.close()
        if self._lifecycle.phase is not Phase.FAILED:  # which tells more
            self._lifecycle.enter(Phase.STOPPED, "shut down")

    def kill(self) -> None:
        """Kill the engine's whole process group."""
        if self._running is not None:
            self._running.cancel()  # it is no loss
        if self._child is not None:
            self._child.kill()

    async def _run(self) -> None:
        while True:
            loss = await self._run_once()
            self._info = None
            pause = self._pause_after(loss)
            if pause is None:
                self._lifecycle.enter(Phase.FAILED, loss.reason)
            else:
                words = f"{loss.reason}; starting it again in {pause:.0f} s"
                self._lifecycle.enter(Phase.STARTING, words)
            if self._child is not None:
                grace = self._settings.engine_stop_timeout if loss.responsive else 0
                await self._child.stop(grace)
            if pause is None:
                self._failed.set()
                return
            await asyncio.sleep(pause)

    def _pause_after(self, loss: Loss) -> float | None:
        """Seconds until the next start; None to give up."""
        if self._lifecycle.ending or not (self._was_ready or loss.by_itself):
            return None
        return self._restarts.next_pause()

    async def _run_once(self) -> Loss:
        """Bring the engine up and watch it until it is lost."""
        try:
            async with asyncio.timeout(self._settings.engine_start_timeout):
                child = await self._bring_up()
        except _EndedWhileLoading as error:
            return Loss(error.message, by_itself=error.by_signal)
        except _PortTaken as error:
            return Loss(error.message)  # an engine that was killed may be about to give it back
        except _LostWhileWarming as error:
            return Loss(error.message, responsive=False)
        except ChatServerError as error:
            return Loss(error.message, by_itself=False)
        except TimeoutError:
            return Loss("not ready within ENGINE_START_TIMEOUT", by_itself=False)
        except Exception:
            log.exception("the engine could not be started")
            return Loss("could not be started; see the log", by_itself=False)
        return await self._watch(child)

    async def _bring_up(self) -> ChildProcess:
        self._began = time.monotonic()
        self._choose_port()
        child, model_name = await start_sglang(self._settings, self._port, self._lifecycle.enter)
        self._child = child
        await self._until_it_answers(child)
        self._lifecycle.enter(Phase.WARMING, "generating the first tokens")
        await self._warm_up(child)
        self._was_ready = True
        self._restarts.ready()
        self._needed = time.monotonic() - self._began
        self._lifecycle.enter(Phase.READY, f"serving {model_name}")
        return child

    async def _warm_up(self, child: ChildProcess) -> None:
        """Warm the engine up, unless it is lost meanwhile.

        Nobody asks it for signs of life here: it may compile kernels, and be silent for that.
        """
        warming = asyncio.ensure_future(warm_up(self))
        lost = asyncio.ensure_future(until_a_worker_is_gone(child.pid))
        try:
            await asyncio.wait(
                {warming, lost}, timeout=_WARM_UP_WITHIN, return_when=asyncio.FIRST_COMPLETED
            )
            if lost.done():
                raise _LostWhileWarming(lost.result())
            if not warming.done():
                raise _LostWhileWarming(f"no first tokens within {_WARM_UP_WITHIN:.0f} s")
            warming.result()
        finally:
            for task in (warming, lost):
                task.cancel()
            await asyncio.wait({warming, lost})

    def _choose_port(self) -> None:
        if is_free(self._port):
            return
        if self._settings.engine_port:
            raise _PortTaken(
                f"ENGINE_PORT={self._port} is taken; choose another one, or 0 for any that is free"
            )
        self._port = free_port()
        self.move_to(f"http://127.0.0.1:{self._port}")

    def _seconds_until_ready(self) -> int:
        """Judged by how long it took the last time."""
        if self._needed is None:
            return super()._seconds_until_ready()
        return max(1, math.ceil(self._began + self._needed - time.monotonic()))

    async def _watch(self, child: ChildProcess) -> Loss:
        serving = self._lifecycle.status.reason
        watchdog = Watchdog(
            child.pid,
            self.ask_for_life,
            patience=self._settings.engine_hang_timeout,
            on_silence=lambda words: self._lifecycle.enter(Phase.DEGRADED, words),
            on_answer=lambda: self._lifecycle.enter(Phase.READY, serving),
        )
        ended = asyncio.ensure_future(child.wait())
        lost = asyncio.ensure_future(watchdog.until_lost())
        try:
            await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                # Its end is the better reason, if it comes of itself right after its worker's.
                await asyncio.wait({ended}, timeout=0.1)
            if ended.done():
                return Loss(f"the engine ended with {_describe_exit(ended.result())}")
            return Loss(lost.result(), responsive=False)
        finally:
            for task in (ended, lost):
                task.cancel()
            await asyncio.wait({ended, lost})

    async def _until_it_answers(self, child: ChildProcess) -> None:
        """Wait for the HTTP server, but no longer than the process lives.

        Raises:
            EngineFailed: the process ended; its last lines are in the log.
        """
        ended = asyncio.create_task(child.wait())
        try:
            while not ended.done():
                try:
                    await self.discover()
                except ChatServerError:
                    # Refused while it loads; later, some versions answer 503 or not at all.
                    await asyncio.wait({ended}, timeout=_POLL_INTERVAL)
                else:
                    return
        finally:
            ended.cancel()
        raise _EndedWhileLoading(ended.result())


class _EndedWhileLoading(EngineFailed):
    """The process did not live until it answered."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the engine ended with {_describe_exit(status)} while loading")
        self.by_signal = status < 0


class _PortTaken(EngineFailed):
    """Somebody listens on the port that the engine must have."""


class _LostWhileWarming(EngineFailed):
    """It answered, and then lost a process or fell silent."""


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server can be started on a loopback port."""
    with socket.socket() as probe:
        # As servers do: connections of the one before may still be closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def _describe_exit(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
