"""Runs gateway and engine until one of them ends or a signal comes."""

import asyncio
import gc
import logging
import math
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from types import FrameType

import typer
import uvicorn

from app.engines.lifecycle import ManagedEngine
from app.engines.phases import Phase
from app.gateway.app import create_app
from app.gateway.connection import connection_class
from app.settings import Settings

log = logging.getLogger(__name__)

_BACKLOG = 2048
_LAST_WORDS = 5  # seconds, for errors to reach their callers


async def serve(settings: Settings, engine: ManagedEngine) -> int:
    """Serve; return the exit status: 0 after a signal, 1 when the engine failed."""
    listener = listen(settings.host, settings.port)
    server = _Server(
        uvicorn.Config(
            create_app(settings, engine),
            http=connection_class(settings.receive_timeout),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks where a request came from
            timeout_keep_alive=75,
            # Our own end of the grace period comes first, and tells every caller.
            timeout_graceful_shutdown=math.ceil(settings.shutdown_grace) + _LAST_WORDS,
        ),
        engine,
        settings,
    )
    url = _url_of(listener)
    log.info("listening on %s, not ready yet", url)
    watching = asyncio.create_task(_watch(server, engine, announcement(url, settings.invocations)))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.wait({watching})
    return 1 if engine.status.phase is Phase.FAILED else 0


class _Server(uvicorn.Server):
    """Shuts down in steps at the first signal, and at once at the second.

    Not ready; then, after ``shutdown_delay``, no new connections; then, after ``shutdown_grace``,
    an error to each caller whose answer is still not complete.
    """

    def __init__(self, config: uvicorn.Config, engine: ManagedEngine, settings: Settings) -> None:
        super().__init__(config)
        self._engine = engine
        self._settings = settings
        self._drain: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        if self._drain is not None:
            log.info("second signal: ending at once")
            self.should_exit = self.force_exit = True
            self._engine.kill()
            return
        was_ready = self._engine.status.phase in (Phase.READY, Phase.DEGRADED)
        self._engine.drain()
        delay = self._settings.shutdown_delay if was_ready else 0
        self._drain = asyncio.create_task(self._shut_down_in_steps(delay))

    async def _shut_down_in_steps(self, delay: float) -> None:
        await asyncio.sleep(delay)
        self.should_exit = True
        await asyncio.sleep(self._settings.shutdown_grace)
        log.warning("requests are still open after SHUTDOWN_GRACE: ending them")
        await self._engine.hang_up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the open requests, then stop the application."""
        try:
            await super().shutdown(sockets)
        finally:
            if self._drain is not None:
                self._drain.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the exit status to us: uvicorn raises a signal anew after it has shut down."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def listen(host: str, port: int) -> socket.socket:
    """The listening socket, taken before a model is loaded in vain.

    Raises:
        OSError: the address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Tokens are small writes; none may wait for the acknowledgement of the one before.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        # Now, and not when uvicorn takes it over: who comes before that waits and is not refused.
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(False)
    return listener


async def _watch(server: uvicorn.Server, engine: ManagedEngine, ready: str) -> None:
    """Announce the server once it is ready, and end it when the engine fails."""
    failure = asyncio.create_task(engine.failure())
    try:
        while engine.status.phase is not Phase.READY and not failure.done():
            await asyncio.wait({failure}, timeout=0.2)
        if not failure.done():
            _leave_garbage_longer()
            typer.echo(ready)
        reason = await failure
        if not log.isEnabledFor(logging.INFO):
            # The engine's lines were not shown as they came; the last ones tell what went wrong.
            for line in engine.status.log_tail:
                log.error("engine: %s", line)
        log.error("stopping: %s", reason)
        server.should_exit = True
    finally:
        failure.cancel()


def _leave_garbage_longer() -> None:
    """Look for reference cycles seldom, and never in what lives as long as the server.

    By default Python looks through all objects every few hundred requests, and every stream
    waits for that meanwhile. What a request leaves behind has hardly any cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def announcement(url: str, invocations: str) -> str:
    """What a user sees when the server is ready: the address, and a line to paste."""
    # A low temperature: a small model at 1.0 makes a poor first impression.
    parameters = '"temperature": 0.2'
    if invocations == "chat-agent":
        parameters = f'"custom_inputs": {{{parameters}}}'
    body = f'{{"messages": [{{"role": "user", "content": "Name three colours."}}], {parameters}}}'
    return (
        f"\nReady: {url} (interactive documentation: {url}/docs)\n\n"
        f"  curl {url}/invocations -H 'Content-Type: application/json' -d '{body}'\n"
    )


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    address = ip_address(host)
    if address.is_unspecified:
        return f"http://127.0.0.1:{port}"
    return f"http://[{host}]:{port}" if address.version == 6 else f"http://{host}:{port}"
