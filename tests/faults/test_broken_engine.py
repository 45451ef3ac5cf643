"""Hundreds of answers that are cut, stalled, garbled or slow, many at once.

Whatever the engine does, each caller gets a whole answer or a clean error within the deadlines, and
afterwards nothing is left: no place at the engine, no broken connection that harms the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from tests.contract.conftest import client, engine, gateway  # noqa: F401  fixtures
from tests.contract.outcome import Outcome, invoke
from tests.replay import Recording, ReplayEngine
from tests.replay.recordings import recording

FAULTS = 300
AT_ONCE = 8
# The deadlines of the gateway under test are one and two seconds.
WITHIN = 20
PLAIN = ("chat_default_params", "chat_plain")
STREAMED = ("chat_stream_natural_stop", "tools_none_stream")
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
CLEAN = {200, 400, 429, 500, 503, 504}


def garbled(recorded: Recording, dice: random.Random) -> Recording:
    """The same answer with some bytes that are others."""
    wire = bytearray(recorded.response)
    for _ in range(dice.randint(1, 5)):
        wire[dice.randrange(len(wire))] = dice.randrange(256)
    return replace(recorded, response=bytes(wire))


def queue_fault(engine: ReplayEngine, dice: random.Random, *, stream: bool) -> None:  # noqa: F811
    """Have the next answer go wrong."""
    recorded = recording(dice.choice(STREAMED if stream else PLAIN))
    how = dice.randrange(5)
    options: dict[str, Any] = {"split": dice.choice(["reads", "whole"])}
    if how == 0:
        recorded = garbled(recorded, dice)
        options["then"] = "close"
    elif how == 1:
        options |= {"pause": 0.05, "stop_after": 2000}
    elif how < 4:
        options["stop_after"] = dice.randrange(len(recorded.response))
        options["then"] = dice.choice(["stall", "close", "reset"])
    engine.play(recorded, **options)


def check(outcome: Outcome) -> str:
    """What the caller got; anything but a clean end is an error of the test."""
    assert outcome.status in CLEAN, (outcome.status, outcome.body[:500])
    if outcome.streamed:
        _ = outcome.events  # strict: raises on whatever a client would trip over
    elif outcome.status == 200:
        assert outcome.json["messages"]
    if outcome.error is not None:
        assert outcome.error["message"]
        return str(outcome.error["error_code"])
    return "answer"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_caller_gets_an_end(
    seed: int,
    engine: ReplayEngine,  # noqa: F811
    gateway: str,  # noqa: F811
    client: aiohttp.ClientSession,  # noqa: F811
) -> None:
    dice = random.Random(seed)
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> str:
        async with places:
            stream = dice.random() < 0.6
            queue_fault(engine, dice, stream=stream)
            leaves = dice.random() < 0.15
            try:
                async with asyncio.timeout(0.1 if leaves else WITHIN):
                    return check(await invoke(client, gateway, QUESTION | {"stream": stream}))
            except TimeoutError:
                assert leaves, "no end"
                return "left"

    ends = Counter(await asyncio.gather(*(one() for _ in range(FAULTS))))
    assert {"answer", "left", "TEMPORARILY_UNAVAILABLE", "DEADLINE_EXCEEDED"} <= ends.keys()

    engine.forget()
    await until_idle(client, gateway)
    for stream in (False, True):
        outcome = await invoke(client, gateway, QUESTION | {"stream": stream})
        assert check(outcome) == "answer"


async def until_idle(client: aiohttp.ClientSession, gateway: str) -> None:  # noqa: F811
    """Until no request holds a place at the engine."""
    async with asyncio.timeout(WITHIN):
        while True:
            async with client.get(f"{gateway}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            held = [
                line.split()[1] for line in lines if line.startswith("chat_server_requests_run")
            ]
            if held == ["0.0"]:
                return
            await asyncio.sleep(0.05)
