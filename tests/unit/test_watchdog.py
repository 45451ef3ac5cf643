"""The watchdog: silent engines, slow ones, ones that refuse, and lost workers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from app.engines.watchdog import Watchdog
from app.errors import DeadlineExceeded, EngineFailed, EngineUnavailable

NAMED = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"sglang::detoken", 0, 0, 0)
print(flush=True)
time.sleep(60)
"""


def named_child() -> subprocess.Popen[bytes]:
    """A child of this process that bears the name of one of SGLang's workers."""
    child = subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


class Seen:
    """What the watchdog told."""

    def __init__(self, ask: Callable[[float], Awaitable[object]], patience: float = 0.4) -> None:
        self.told: list[str] = []
        self.watchdog = Watchdog(
            os.getpid(),
            ask,
            patience=patience,
            on_silence=lambda _: self.told.append("silence"),
            on_answer=lambda: self.told.append("answer"),
        )


@pytest.mark.parametrize("error", [DeadlineExceeded("x"), EngineUnavailable("x")])
async def test_silence_is_told_once_and_then_the_engine_is_lost(error: Exception) -> None:
    async def ask(within: float) -> None:
        raise error

    seen = Seen(ask)
    assert "no sign of life" in await seen.watchdog.until_lost()
    assert seen.told == ["silence"]


async def test_a_question_that_is_never_answered() -> None:
    async def ask(within: float) -> None:
        await asyncio.sleep(within)
        raise DeadlineExceeded("x")

    seen = Seen(ask)
    assert "no sign of life" in await seen.watchdog.until_lost()
    assert seen.told == ["silence"]


async def test_a_late_answer_ends_the_silence() -> None:
    answers = iter([False, False, True, True, True, True, True, True])

    async def ask(within: float) -> None:
        if not next(answers, False):
            raise EngineUnavailable("x")

    seen = Seen(ask, patience=0.8)
    await seen.watchdog.until_lost()
    assert seen.told == ["silence", "answer", "silence"]


async def test_an_engine_that_refuses_lives() -> None:
    async def ask(within: float) -> None:
        raise EngineFailed("500")

    seen = Seen(ask, patience=0.2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(seen.watchdog.until_lost(), 1)
    assert seen.told == []


async def test_a_worker_that_is_gone() -> None:
    async def ask(within: float) -> None:
        pass

    with named_child() as worker:
        watching = asyncio.ensure_future(Seen(ask).watchdog.until_lost())
        await asyncio.sleep(0.1)
        assert not watching.done()
        worker.kill()  # and not reaped, as by a parent that does not care
        assert await watching == "the engine lost its process sglang::detoken"
