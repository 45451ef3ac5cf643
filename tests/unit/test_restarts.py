"""When a lost engine is started again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.engines.restarts import Restarts


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pauses_double_up_to_half_a_minute() -> None:
    restarts = Restarts(8, clock=Clock())
    assert [restarts.next_pause() for _ in range(9)] == [1, 2, 4, 8, 16, 30, 30, 30, None]
    assert restarts.total == 8


def test_none_at_all() -> None:
    assert Restarts(0, clock=Clock()).next_pause() is None


@given(st.integers(1, 5), st.floats(0, 599))
def test_being_ready_for_a_moment_makes_up_for_nothing(most: int, seconds: float) -> None:
    clock = Clock()
    restarts = Restarts(most, clock=clock)
    for _ in range(most):
        restarts.ready()
        clock.now += seconds
        assert restarts.next_pause() is not None
    restarts.ready()
    clock.now += seconds
    assert restarts.next_pause() is None


def test_ten_good_minutes_make_up_for_all() -> None:
    clock = Clock()
    restarts = Restarts(1, clock=clock)
    assert restarts.next_pause() == 1
    restarts.ready()
    clock.now += 600
    assert restarts.next_pause() == 1
    assert restarts.next_pause() is None
