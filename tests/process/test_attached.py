"""ENGINE_URL: an engine that others run may come, go and come back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.process.asking import invocation
from tests.process.conftest import Start
from tests.replay import ReplayEngine
from tests.replay.recordings import CHAT


class EngineOnPort(ReplayEngine):
    """A replay engine on a port that the test knows before it starts."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def __aenter__(self) -> EngineOnPort:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


async def test_engine_comes_goes_and_comes_back(
    start: Start, port: int, client: httpx.AsyncClient
) -> None:
    server = start("works", "--engine-url", f"http://127.0.0.1:{port}/v1")
    url = await asyncio.to_thread(lambda: server.url)

    body = await _until(client, url, 503)
    assert body["phase"] == "loading"
    assert body["reason"]
    refused = await client.post(url + "/invocations", json=invocation(3))
    assert refused.status_code == 503
    assert refused.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert refused.headers["Retry-After"].isdigit()

    for _ in range(2):
        async with EngineOnPort(port):
            assert (await _until(client, url, 200))["phase"] == "ready"
            answer = await client.post(url + "/invocations", json=invocation(3))
            assert answer.status_code == 200
            assert answer.json()["messages"][0]["content"]
        body = await _until(client, url, 503)
        assert body["phase"] == "degraded"
        assert str(port) in body["reason"]
        assert (await client.get(url + "/health/live")).status_code == 200
        assert (await client.get(url + "/ping")).status_code == 200

    assert len(server.processes()) == 1, "it has started an engine of its own"


async def test_engine_that_stops_generating_is_noticed(
    start: Start, port: int, client: httpx.AsyncClient
) -> None:
    async with EngineOnPort(port) as engine:
        server = start("works", ENGINE_URL=engine.url)
        url = await asyncio.to_thread(lambda: server.url)
        await _until(client, url, 200)
        engine.freeze()
        await _until(client, url, 503)
        engine.thaw()
        await _until(client, url, 200)


async def test_not_ready_before_the_first_tokens(
    start: Start, port: int, client: httpx.AsyncClient
) -> None:
    """An engine that answers everything but the first generation, which compiles or hangs."""
    async with EngineOnPort(port) as engine:
        engine.play("chat_after_kill9")
        server = start("works", ENGINE_URL=engine.url)
        url = await asyncio.to_thread(lambda: server.url)
        async with asyncio.timeout(60):
            while not engine.chats:  # noqa: ASYNC110 - the server is another process
                await asyncio.sleep(0.05)
        answer = await client.get(url + "/health/ready")
        assert (answer.status_code, answer.json()["phase"]) == (503, "warming")
        before = len(engine.requests)
        chat = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        for path, body in (("/invocations", invocation(3)), ("/v1/chat/completions", chat)):
            refused = await client.post(url + path, json=body)
            assert refused.status_code == 503, "what is not ready takes no requests either"
            assert refused.headers["Retry-After"].isdigit()
        assert (await client.get(url + "/v1/models")).status_code == 503
        assert len(engine.requests) == before


async def test_ready_only_after_every_common_kind_of_request(
    start: Start, port: int, client: httpx.AsyncClient
) -> None:
    """Whatever is compiled at its first use, no user shall be the one who waits for it."""
    async with EngineOnPort(port) as engine:
        server = start("works", ENGINE_URL=engine.url)
        url = await asyncio.to_thread(lambda: server.url)
        await _until(client, url, 200)
        asked = [each.json for each in engine.requests if each.path == CHAT]
    greedy, *others = asked
    assert greedy["temperature"] == 0
    assert any(each.get("top_p") and each.get("top_k") for each in others), "sampled"
    assert any(each["messages"] == greedy["messages"] for each in others), "a cached prefix"
    assert any(each.get("stream") for each in others), "streamed"
    assert any(each.get("regex") for each in others), "with a grammar"


async def _until(client: httpx.AsyncClient, url: str, status: int) -> dict[str, Any]:
    """The body of ``/health/ready`` once it has this status."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(url + "/health/ready")
            if answer.status_code == status:
                body: dict[str, Any] = answer.json()
                return body
            await asyncio.sleep(0.1)
