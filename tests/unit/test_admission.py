"""Places at the engine: bounds, order, deadlines, and that no place is ever lost."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from app.admission import Admission, Limits
from app.errors import Overloaded
from tests.unit.virtual_time import VirtualTimeLoop

TIMEOUT = 30.0


@pytest.fixture
def loop() -> Iterator[VirtualTimeLoop]:
    loop = VirtualTimeLoop()
    yield loop
    loop.close()


class Place:
    """A request that holds its place until it is told to end."""

    def __init__(self, loop: VirtualTimeLoop, admission: Admission, key: str | None = None) -> None:
        self._loop = loop
        self._end = asyncio.Event()
        self.entered = False
        self.task = loop.create_task(self._hold(admission, key))
        loop.settle()

    async def _hold(self, admission: Admission, key: str | None) -> None:
        async with admission.slot(key):
            self.entered = True
            await self._end.wait()

    def end(self) -> None:
        self._end.set()
        self._loop.settle()
        assert self.task.done()
        self.task.result()

    def leave(self) -> None:
        self.task.cancel()
        self._loop.settle()
        assert self.task.cancelled()

    @property
    def refusal(self) -> Overloaded:
        assert self.task.done(), "not refused"
        error = self.task.exception()
        assert isinstance(error, Overloaded)
        return error


def admission_of(
    loop: VirtualTimeLoop,
    running: int,
    queued: int,
    timeout: float = TIMEOUT,
    per_key: int | None = None,
) -> Admission:
    return Admission(Limits(running, queued, timeout, per_key), clock=loop.time)


def test_so_many_run_so_many_wait_and_the_rest_is_refused_at_once(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 2, 1)
    places = [Place(loop, admission) for _ in range(4)]
    assert [place.entered for place in places] == [True, True, False, False]
    assert (admission.running, admission.queued, admission.rejected) == (2, 1, 1)
    assert places[3].refusal.reason == "queue-full"
    assert places[3].refusal.queued == 1
    places[0].end()
    assert places[2].entered
    places[1].end()
    places[2].end()
    assert (admission.running, admission.queued) == (0, 0)


def test_without_a_queue_nobody_waits(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 0)
    first, second = Place(loop, admission), Place(loop, admission)
    assert second.refusal.reason == "queue-full"
    first.end()
    Place(loop, admission).end()


def test_who_came_first_is_first(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 5)
    places = [Place(loop, admission) for _ in range(5)]
    for place, later in zip(places, [*places[1:], None], strict=True):
        assert place.entered
        assert later is None or not later.entered
        place.end()


def test_one_caller_with_many_requests_delays_another_by_one_place(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 20)
    current = Place(loop, admission, "greedy")
    greedy = [Place(loop, admission, "greedy") for _ in range(10)]
    modest = Place(loop, admission, "modest")
    current.end()
    assert greedy[0].entered
    assert not modest.entered
    greedy[0].end()
    assert modest.entered


def test_a_wait_that_is_too_long_is_refused(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 5)
    holder, waiting = Place(loop, admission), Place(loop, admission)
    loop.advance(TIMEOUT - 1)
    assert not waiting.task.done()
    loop.advance(2)
    assert waiting.refusal.reason == "queue-timeout"
    assert (admission.running, admission.queued, admission.rejected) == (1, 0, 1)
    holder.end()
    assert admission.running == 0


def test_once_it_runs_the_deadline_of_the_queue_is_over(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 5)
    holder, waiting = Place(loop, admission), Place(loop, admission)
    holder.end()
    assert not loop.has_timers()
    loop.advance(10 * TIMEOUT)
    assert waiting.entered
    waiting.end()


def test_whoever_leaves_while_waiting_is_out_of_the_queue(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 2)
    holder, leaving, staying = (Place(loop, admission) for _ in range(3))
    leaving.leave()
    assert admission.queued == 1
    third = Place(loop, admission)
    holder.end()
    assert staying.entered
    assert not leaving.entered
    staying.end()
    third.end()
    assert (admission.running, admission.queued) == (0, 0)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("end_first", [True, False])
def test_a_place_that_comes_as_its_caller_leaves_goes_to_the_next(
    turns: int, end_first: bool, loop: VirtualTimeLoop
) -> None:
    admission = admission_of(loop, 1, 5)
    holder, leaving, staying = (Place(loop, admission) for _ in range(3))
    # Both in one turn of the event loop, or in one of the next.
    if end_first:
        holder._end.set()
        loop.call_in(turns, leaving.task.cancel)
    else:
        leaving.task.cancel()
        loop.call_in(turns, holder._end.set)
    loop.settle()
    assert leaving.task.cancelled()
    assert staying.entered
    staying.end()
    assert (admission.running, admission.queued) == (0, 0)


def test_a_wait_that_is_destroyed_leaves_too(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 5)
    holder = Place(loop, admission)

    async def start() -> None:
        waiting = admission._enter(None)
        waiting.send(None)
        assert admission.queued == 1
        waiting.close()

    loop.run_until_complete(start())
    assert admission.queued == 0
    holder.end()
    assert admission.running == 0


def test_an_error_inside_frees_the_place(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 0)

    async def fail() -> None:
        async with admission.slot("k"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(fail())
    assert admission.running == 0


@pytest.mark.parametrize(
    ("held", "limit", "waiting", "expected"),
    [
        (10.0, 1, 2, 30),  # two before, and one's own
        (10.0, 4, 2, 8),
        (0.1, 1, 2, 1),
        (500.0, 1, 5, 60),
    ],
)
def test_when_to_come_back_follows_from_how_long_places_were_held(
    held: float, limit: int, waiting: int, expected: int, loop: VirtualTimeLoop
) -> None:
    admission = admission_of(loop, limit, waiting, timeout=1e6)
    for _ in range(3):
        place = Place(loop, admission)
        loop.advance(held)
        place.end()
    places = [Place(loop, admission) for _ in range(limit + waiting)]
    refused = Place(loop, admission).refusal
    assert refused.retry_after == expected
    assert f"{expected} s" in refused.message
    for place in places:
        place.end()


def test_it_comes_down_when_answers_become_faster(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 0)
    waits = []
    for held in (40.0, *[1.0] * 60):
        place = Place(loop, admission)
        loop.advance(held)
        place.end()
        waits.append(admission.retry_after)
    assert waits[0] == 40
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] <= 2


def test_before_anything_was_measured_it_is_a_second(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 0)
    place = Place(loop, admission)
    assert Place(loop, admission).refusal.retry_after == 1
    place.end()


def test_a_key_has_a_limit_of_its_own(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 10, per_key=2)
    first, waiting = Place(loop, admission, "a"), Place(loop, admission, "a")
    refused = Place(loop, admission, "a").refusal
    assert refused.reason == "key-limit"
    others = [Place(loop, admission, "b"), Place(loop, admission), Place(loop, admission)]
    assert not any(place.task.done() for place in others), "refused for another's requests"
    first.end()
    again = Place(loop, admission, "a")
    assert not again.task.done()
    for place in (waiting, *others[:2], again, others[2]):
        assert place.entered
        place.end()
    assert admission._of_key == {}


def test_a_refused_or_cancelled_request_does_not_count_for_its_key(loop: VirtualTimeLoop) -> None:
    admission = admission_of(loop, 1, 1, per_key=5)
    holder, waiting = Place(loop, admission), Place(loop, admission, "a")
    assert Place(loop, admission, "a").refusal.reason == "queue-full"
    waiting.leave()
    late = Place(loop, admission, "a")
    loop.advance(TIMEOUT + 1)
    assert late.refusal.reason == "queue-timeout"
    assert admission._of_key == {}
    holder.end()


def test_a_deadline_that_nobody_hears_of_says_nothing(
    loop: VirtualTimeLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """The deadline passes and the caller leaves before it learns of that."""
    admission = admission_of(loop, 1, 5)
    holder, leaving = Place(loop, admission), Place(loop, admission)
    loop.call_later(TIMEOUT, leaving.task.cancel)  # in the same turn, after the deadline's timer
    loop.advance(TIMEOUT + 1)
    assert leaving.task.done()
    holder.end()
    del leaving
    gc.collect()
    loop.settle()
    assert caplog.messages == []
    assert (admission.running, admission.queued) == (0, 0)


def test_a_place_that_comes_just_before_the_deadline_is_kept(loop: VirtualTimeLoop) -> None:
    """The deadline's timer runs before its caller has woken up."""
    admission = admission_of(loop, 1, 5)
    loop.run_until_complete(admission.slot().__aenter__())
    waiting = Place(loop, admission)
    loop.call_later(TIMEOUT / 2, admission._leave, None, loop.time())
    loop.advance(2 * TIMEOUT)
    assert waiting.entered
    assert admission.rejected == 0
    waiting.end()
    assert admission.running == 0
