"""The states of an engine: which may follow which, and that the end is the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines.phases import Lifecycle, Phase, Status

ENDS = {Phase.DRAINING, Phase.STOPPED, Phase.FAILED}


def lifecycle(phase: Phase) -> Lifecycle:
    found = Lifecycle()
    found.status = Status(phase, "as the test says")
    return found


@pytest.mark.parametrize(
    "path",
    [
        "starting loading warming ready draining stopped",
        "starting loading warming ready degraded ready degraded starting loading warming ready",
        "starting loading starting loading failed stopped",
        "loading warming loading warming ready degraded warming ready",
        "ready draining failed",
    ],
)
def test_the_lives_that_engines_have(path: str) -> None:
    phases = [Phase(name) for name in path.split()]
    engine = lifecycle(phases[0])
    for phase in phases[1:]:
        engine.enter(phase, "")
        assert engine.phase is phase


@pytest.mark.parametrize(
    ("now", "wish"),
    [
        (Phase.STARTING, Phase.READY),
        (Phase.LOADING, Phase.READY),
        (Phase.LOADING, Phase.DEGRADED),
        (Phase.READY, Phase.LOADING),
        (Phase.READY, Phase.WARMING),
    ],
)
def test_no_phase_is_skipped(now: Phase, wish: Phase) -> None:
    engine = lifecycle(now)
    with pytest.raises(ValueError, match=f"from {now} to {wish}"):
        engine.enter(wish, "")
    assert engine.phase is now


@given(st.sampled_from(sorted(ENDS)), st.lists(st.sampled_from(Phase), max_size=8))
def test_what_has_begun_to_end_never_gets_ready(end: Phase, wishes: list[Phase]) -> None:
    engine = lifecycle(end)
    for wish in wishes:
        try:
            engine.enter(wish, "")
        except ValueError:
            assert wish in ENDS
        assert engine.phase in ENDS


def test_shards_and_log_are_shown_only_where_there_are_any() -> None:
    shown = Status(Phase.LOADING, "x", progress="3/8", log_tail=("a", "b")).as_dict()
    assert (shown["shards"], shown["log"]) == ("3/8", ["a", "b"])
    assert Status(Phase.READY, "x").as_dict().keys() == {"phase", "reason", "seconds"}
