"""Runs gateway and engine until one of them ends or a signal comes."""

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import typer
import uvicorn

from app.engines.lifecycle import ManagedEngine
from app.engines.phases import Phase
from app.gateway.app import create_app
from app.gateway.connection import connection_class
from app.settings import Settings

log = logging.getLogger(__name__)


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
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(settings.shutdown_grace),
        )
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
    """Leaves the exit status to us: uvicorn raises a signal anew after it has shut down."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order at the first signal, at once at the second."""
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
