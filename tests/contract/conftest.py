"""One gateway in front of one replay engine for the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio

from tests.contract.gateway import new_client, running_gateway
from tests.replay import ReplayEngine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[ReplayEngine]:
    async with ReplayEngine() as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(engine: ReplayEngine) -> AsyncIterator[str]:
    limits = {"idle_timeout": 1.0, "request_timeout": 2.0, "keep_alive_interval": 0.1}
    async with running_gateway(engine, **limits) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_client() as session:
        yield session
