"""An event loop whose clock stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Timers fire when :meth:`advance` has passed them, however long that really takes."""

    _scheduled: Any  # asyncio's own list of timers

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__()

    def time(self) -> float:
        return self._now

    def settle(self) -> None:
        """Run whatever can run, until everybody waits for something that has not happened."""
        for _ in range(10):
            self.run_until_complete(asyncio.sleep(0))

    def call_in(self, turns: int, call: Callable[[], object]) -> None:
        """Call after so many turns of the loop, to meet what happens inside of one."""
        if turns:
            self.call_soon(self.call_in, turns - 1, call)
        else:
            call()

    def has_timers(self) -> bool:
        return any(not timer.cancelled() for timer in self._scheduled)

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self.settle()
