"""How often, and after which pause, an engine that was lost is started again."""

import time
from collections.abc import Callable

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_FORGIVEN_AFTER = 600.0


class Restarts:
    """Counts the losses of one engine.

    Args:
        most: starts after a loss, in a row; 0 for none.
        clock: seconds that only grow.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        """All starts after a loss, for people and metrics."""
        self._most = most
        self._clock = clock
        self._in_a_row = 0
        self._ready_at: float | None = None

    def ready(self) -> None:
        """The engine answers."""
        self._ready_at = self._clock()

    def next_pause(self) -> float | None:
        """The engine is lost: seconds to wait before the next start; None to give up.

        An engine that was ready for ten minutes has made up for earlier losses.
        """
        if self._ready_at is not None and self._clock() - self._ready_at >= _FORGIVEN_AFTER:
            self._in_a_row = 0
        self._ready_at = None
        if self._in_a_row >= self._most:
            return None
        pause = min(_FIRST_PAUSE * 2.0**self._in_a_row, _LONGEST_PAUSE)
        self._in_a_row += 1
        self.total += 1
        return pause
