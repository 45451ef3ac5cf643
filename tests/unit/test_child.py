"""The engine's process group: over only when its last member is."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from app.engines import child
from app.engines.child import ChildProcess

SLEEPS = [sys.executable, "-c", "import time; time.sleep(3600)"]


async def test_a_stop_waits_until_the_gpus_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver cleans up after a dead process for a while, in which it can't be reaped.

    No program can stage that without a GPU, so here the look at the process group says it.
    """
    looks = iter([True, True, True, False])
    asked: list[int] = []

    def still_there(group: int) -> bool:
        asked.append(group)
        return next(looks)

    monkeypatch.setattr(child, "_has_living_members", still_there)
    process = await ChildProcess.start(SLEEPS, dict(os.environ), "test")
    await process.stop(grace=5)
    assert asked == [process.pid] * 4


async def test_a_member_that_lives_counts_and_a_dead_one_does_not() -> None:
    process = await ChildProcess.start(SLEEPS, dict(os.environ), "test")
    assert child._has_living_members(process.pid)
    process.kill()
    await asyncio.wait_for(process.wait(), 10)
    assert not child._has_living_members(process.pid)
    await process.stop(grace=0)
