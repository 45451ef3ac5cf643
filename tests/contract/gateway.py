"""A gateway over real HTTP in front of a replay engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import uvicorn

from app.gateway.app import create_app
from app.runtime import build_engine
from app.settings import Settings
from tests.replay import ReplayEngine


class _Server(uvicorn.Server):
    """Lives inside the test's event loop, so it must leave the signals to pytest."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def running_gateway(engine: ReplayEngine, **settings: Any) -> AsyncIterator[str]:
    """Start the gateway in attach mode and yield its URL."""
    chosen = Settings(engine_url=engine.url, **settings)
    app = create_app(chosen, build_engine(chosen))
    server = _Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2))
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(20):
            while not server.started:
                if serving.done():
                    serving.result()
                    raise RuntimeError("the gateway stopped before it had started")
                await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        await _until_ready(url)
        yield url
    finally:
        server.should_exit = True
        await serving


def new_client(**options: Any) -> aiohttp.ClientSession:
    """A client with a new connection for each request.

    Tests without requests stop the event loop for seconds, during which the gateway's idle
    connections expire; a request on such a connection would fail for no fault of the gateway.
    """
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), **options)


async def _until_ready(url: str) -> None:
    """Until its warm-up is over, or a test's recording would go to the warm-up."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(20):
        while (await client.get(url + "/health/ready")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
