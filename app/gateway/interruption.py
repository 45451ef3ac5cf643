"""Ending the work for a request from outside, without a task of its own for that work."""

import asyncio
from types import TracebackType


class Interruptible:
    """A block that somebody else may break off; used in a ``with`` statement, once.

    Like ``asyncio.timeout``, but ended by a call instead of a clock: the block gets a
    ``CancelledError`` where it waits, and the statement takes it back.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def __enter__(self) -> "Interruptible":
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("there is no task to interrupt")
        self._cancelling = self._task.cancelling()
        return self

    def interrupt(self, _: object = None) -> None:
        """Break the block off, unless it is over."""
        if self._task is not None and not self.interrupted:
            self.interrupted = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        task, self._task = self._task, None
        if not self.interrupted or task is None:
            return False
        # Cancelled by somebody else as well: then that goes on.
        return task.uncancel() <= self._cancelling and kind is asyncio.CancelledError
