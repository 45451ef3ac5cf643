"""Clients that leave: seconds until the engine has stopped working for them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp

_CLIENTS = 4
_TOKENS = 3000
_PATIENCE = 30.0


def leave(gateway: str, engine: str) -> dict[str, Any]:
    """By route and kind of request; the engine without the gateway for comparison."""
    return asyncio.run(_leave(gateway, engine))


async def _leave(gateway: str, engine: str) -> dict[str, Any]:
    routes = {
        "gateway /invocations": f"{gateway}/invocations",
        "gateway /v1": f"{gateway}/v1/chat/completions",
        "engine": f"{engine}/v1/chat/completions",
    }
    found: dict[str, Any] = {}
    async with aiohttp.ClientSession() as session:
        for route, url in routes.items():
            for kind in ("stream", "plain"):
                await _until_running(session, engine, 0)
                seconds = [
                    round(await _one_departure(session, engine, url, kind == "stream"), 3)
                    for _ in range(3)
                ]
                found[f"{route}, {kind}"] = {"seconds_until_idle": seconds}
    return found


async def _one_departure(
    session: aiohttp.ClientSession, engine: str, url: str, stream: bool
) -> float:
    inputs = {"max_tokens": _TOKENS, "ignore_eos": True, "temperature": 0}
    messages = [{"role": "user", "content": "Speak."}]
    body: dict[str, Any] = {"messages": messages, "stream": stream}
    body |= {"custom_inputs": inputs} if url.endswith("/invocations") else inputs
    if "custom_inputs" not in body:
        body["model"] = (await _json(session, f"{engine}/v1/models"))["data"][0]["id"]
    clients = [asyncio.create_task(_client(url, body)) for _ in range(_CLIENTS)]
    await _until_running(session, engine, _CLIENTS)
    left = time.monotonic()
    for client in clients:
        client.cancel()
    await asyncio.wait(clients)
    await _until_running(session, engine, 0)
    return time.monotonic() - left


async def _client(url: str, body: dict[str, Any]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
            raise AssertionError("the answer was complete before the client left")


async def _until_running(session: aiohttp.ClientSession, engine: str, wanted: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        load = await _json(session, f"{engine}/v1/loads")
        loads = load.get("loads", load) if isinstance(load, dict) else load
        running = sum(one["num_running_reqs"] + one["num_waiting_reqs"] for one in loads)
        if running == wanted:
            return
        assert time.monotonic() < deadline, f"{running} requests run, not {wanted}"
        await asyncio.sleep(0.005)


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as answer:
        return await answer.json()
