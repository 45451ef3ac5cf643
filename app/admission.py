"""How many requests are in the engine at once, who waits, and who is sent away.

SGLang takes whatever it is sent and queues without a bound: under overload every caller waits, and
most of them leave before their turn. Here a bounded number is in the engine, a bounded number waits
for a bounded time, and the rest are told at once when to come back.

Nothing here is done per piece of an answer, and one request costs two counters and two looks at
the clock while there is room.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

from app.errors import Overloaded, OverloadReason

# How much the newest request counts in the mean: the last twenty or so make up nearly all of it.
_WEIGHT = 0.1
_SHORTEST_WAIT = 1
_LONGEST_WAIT = 60

Line = OrderedDict[asyncio.Future[None], None]
"""Who waits, in the order in which they came; anybody can step out at once."""


@dataclass(frozen=True)
class Limits:
    """The bounds of an :class:`Admission`; see the settings of these names."""

    running: int
    """Requests in the engine at once, at least 1."""
    queued: int
    """Requests that may wait; 0 sends away whoever finds no room."""
    queue_timeout: float
    """Seconds after which a waiting request is sent away."""
    per_key: int | None = None
    """Requests of one key, waiting ones included."""


class Admission:
    """Gives out places at the engine. For one event loop; not safe for threads.

    Within a key the order is that of arrival. Between keys it is one each in turn, so that a
    caller with a thousand waiting requests delays another's one by a single place.

    Args:
        limits: the bounds.
        clock: seconds that only grow; measures how long places are held.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.running = 0
        """Requests in the engine now."""
        self.queued = 0
        """Requests that wait now."""
        self.rejected = 0
        """Requests sent away since the start."""
        self._clock = clock
        self._lines: OrderedDict[str | None, Line] = OrderedDict()
        self._of_key: dict[str, int] = {}
        self._mean_held: float | None = None

    def slot(self, key: str | None = None) -> "Slot":
        """A place at the engine, for an ``async with`` block, which waits until it has one.

        Entering raises :class:`Overloaded` at once when the queue is full or the key has too many
        requests, and later when the wait took too long. A cancelled wait leaves the queue.

        Args:
            key: whose request it is, in a form that tells nothing; None counts for no key's limit.
        """
        return Slot(self, key)

    @property
    def retry_after(self) -> int:
        """Whole seconds until whoever waits now, and one more, should have a place: 1 to 60."""
        mean = self._mean_held or 0.0
        return _sane(mean * (self.queued + 1) / self.limits.running)

    async def _enter(self, key: str | None) -> float:
        """Take a place; the time since when it is held."""
        try:
            self._count(key)
            try:
                if self.running < self.limits.running:
                    self.running += 1
                else:
                    await self._wait(key)
            except BaseException:
                self._uncount(key)
                raise
        except Overloaded:
            # Counted where it is told: whose caller left in that moment was not sent away.
            self.rejected += 1
            raise
        return self._clock()

    def _leave(self, key: str | None, since: float) -> None:
        held = self._clock() - since
        mean = held if self._mean_held is None else self._mean_held
        self._mean_held = mean + _WEIGHT * (held - mean)
        self._uncount(key)
        self._pass_on()

    async def _wait(self, key: str | None) -> None:
        if self.queued >= self.limits.queued:
            self._refuse("queue-full", "The server works at its limit and its queue is full")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._lines.setdefault(key, OrderedDict())[turn] = None
        self.queued += 1
        deadline = loop.call_later(self.limits.queue_timeout, self._give_up, key, turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # its turn came in the moment in which its caller left
            else:
                self._step_out(key, turn)
            raise
        finally:
            deadline.cancel()

    def _pass_on(self) -> None:
        """Hand a place that has become free to whoever is next."""
        while self._lines:
            key, line = next(iter(self._lines.items()))
            turn, _ = line.popitem(last=False)
            self.queued -= 1
            if line:
                self._lines.move_to_end(key)
            else:
                del self._lines[key]
            if not turn.done():  # else cancelled, and its caller not yet awake to step out
                turn.set_result(None)
                return
        self.running -= 1

    def _give_up(self, key: str | None, turn: asyncio.Future[None]) -> None:
        """The wait took too long."""
        if turn.done():
            return  # called or gone, and not yet awake to stop the timer
        self._step_out(key, turn)
        try:
            self._refuse("queue-timeout", "The server works at its limit: no turn came in time")
        except Overloaded as error:
            turn.set_exception(error)

    def _step_out(self, key: str | None, turn: asyncio.Future[None]) -> None:
        """Leave the queue; nothing happens to those who are not in it any more."""
        line = self._lines.get(key)
        if line is None or turn not in line:
            return
        del line[turn]
        if not line:
            del self._lines[key]
        self.queued -= 1

    def _count(self, key: str | None) -> None:
        if key is None or self.limits.per_key is None:
            return
        count = self._of_key.get(key, 0)
        if count >= self.limits.per_key:
            mean = self._mean_held or 0.0
            words = f"This API key has {count} requests open, which is its limit"
            self._refuse("key-limit", words, _sane(mean / count))
        self._of_key[key] = count + 1

    def _uncount(self, key: str | None) -> None:
        if key is None or self.limits.per_key is None:
            return
        self._of_key[key] -= 1
        if not self._of_key[key]:
            del self._of_key[key]

    def _refuse(self, reason: OverloadReason, words: str, wait: int | None = None) -> NoReturn:
        wait = wait or self.retry_after
        raise Overloaded(
            f"{words}. Try again in {wait} s.",
            retry_after=wait,
            reason=reason,
            queued=self.queued,
        )


def _sane(seconds: float) -> int:
    return min(_LONGEST_WAIT, max(_SHORTEST_WAIT, math.ceil(seconds)))


class Slot:
    """One request's place, from :meth:`Admission.slot`."""

    __slots__ = ("_admission", "_key", "_since")

    def __init__(self, admission: Admission, key: str | None) -> None:
        self._admission = admission
        self._key = key
        self._since = 0.0

    async def __aenter__(self) -> None:
        self._since = await self._admission._enter(self._key)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admission._leave(self._key, self._since)
