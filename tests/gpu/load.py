"""Streams that run at the same time, timed event by event, in several processes.

One Python process reads some ten thousand events a second; a GPU makes more.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any

import aiohttp

# ~120 tokens. The number comes first, so that no prompt is found in the engine's prefix cache.
_STORY = "Please write a long story about the sea, ships and the weather. " * 6
_EVENT = b"data: "
_DONE = b"data: [DONE]"
_TOKENS = re.compile(rb'"completion_tokens": ?(\d+)')
_TIMEOUT = aiohttp.ClientTimeout(total=600)


@dataclass(frozen=True)
class Target:
    """Somebody to ask for streams."""

    name: str
    url: str
    model: str

    @property
    def is_chat_agent(self) -> bool:
        """Whether it speaks MLflow's schema."""
        return self.url.endswith("/invocations")

    def body(self, number: int, tokens: int) -> dict[str, Any]:
        """A request for exactly so many tokens, with a prompt of its own."""
        messages = [{"role": "user", "content": f"{number}. {_STORY}"}]
        inputs = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        if self.is_chat_agent:
            return {"messages": messages, "custom_inputs": inputs, "stream": True}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self.model, "messages": messages, **inputs, **options}


@dataclass
class Heard:
    """One stream: seconds, and the tokens that the engine counted."""

    first: float = 0.0
    total: float = 0.0
    gaps: tuple[float, ...] = ()
    """Between one event and the next; 0 for those that came together."""
    tokens: int = 0
    problem: str = ""


class Load:
    """Processes that ask. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self._workers = max(1, (os.cpu_count() or 1) // 2)
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self._workers, mp_context=context)
        self._numbers = count(time.time_ns() // 10**9 * 10**6)

    def __enter__(self) -> Load:
        list(self._pool.map(time.sleep, [0.5] * self._workers))  # all of them are there
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def wave(
        self, target: Target, *, streams: int, tokens: int, repeats: int = 1
    ) -> tuple[float, list[Heard]]:
        """So many streams that begin together, each followed by the next until all is asked.

        Returns:
            Seconds from the first question to the last answer's end, and what was heard.
        """
        bodies = [
            [target.body(next(self._numbers), tokens) for _ in range(repeats)]
            for _ in range(streams)
        ]
        shares = [share for n in range(self._workers) if (share := bodies[n :: self._workers])]
        at = time.monotonic() + 0.2
        asked = [self._pool.submit(_ask_all, target.url, share, at) for share in shares]
        heard: list[Heard] = []
        ended = 0.0
        for one in asked:
            until, some = one.result()
            ended = max(ended, until)
            heard += some
        return ended - at, heard


def _ask_all(url: str, bodies: list[list[dict[str, Any]]], at: float) -> tuple[float, list[Heard]]:
    return asyncio.run(_streams(url, bodies, at))


async def _streams(
    url: str, bodies: list[list[dict[str, Any]]], at: float
) -> tuple[float, list[Heard]]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        await asyncio.sleep(at - time.monotonic())
        rows = await asyncio.gather(*(_one_after_another(session, url, row) for row in bodies))
    return time.monotonic(), [heard for row in rows for heard in row]


async def _one_after_another(
    session: aiohttp.ClientSession, url: str, bodies: list[dict[str, Any]]
) -> list[Heard]:
    return [await _stream(session, url, body) for body in bodies]


async def _stream(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Heard:
    heard = Heard()
    gaps: list[float] = []
    began = before = time.monotonic()
    last = b""
    try:
        async with session.post(url, json=body) as answer:
            if answer.status != 200:
                heard.problem = f"{answer.status} {(await answer.text())[:200]}"
                return heard
            async for data in answer.content.iter_any():
                events = data.count(_EVENT)
                last = (last + data)[-2000:]
                if not events:
                    continue
                now = time.monotonic()
                if heard.first:
                    gaps.append(now - before)
                else:
                    heard.first = now - began
                gaps += [0.0] * (events - 1)
                before = now
    except (aiohttp.ClientError, TimeoutError) as error:
        heard.problem = repr(error)[:200]
        return heard
    heard.total = time.monotonic() - began
    # What closes a stream (usage, [DONE]) is no token.
    heard.gaps = tuple(gaps[:-2])
    found = _TOKENS.findall(last)
    heard.tokens = int(found[-1]) if found else 0
    wanted = body.get("max_tokens") or body["custom_inputs"]["max_tokens"]
    if _DONE not in last or heard.tokens != wanted:
        heard.problem = f"{heard.tokens} of {wanted} tokens, ...{last[-200:]!r}"
    return heard
