"""Any order of arrivals, ends, departures and waits: places are neither lost nor invented."""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.admission import Admission, Limits
from app.errors import Overloaded
from tests.unit.virtual_time import VirtualTimeLoop

RUNNING, QUEUED, TIMEOUT, PER_KEY = 2, 3, 10.0, 3
TURNS = st.integers(0, 3)
KEYS = st.sampled_from([None, "a", "b"])


class Request:
    def __init__(self, machine: "AdmissionMachine", key: str | None) -> None:
        self.key = key
        self.inside = False
        self.end = asyncio.Event()
        self.task = machine.loop.create_task(self._run(machine))

    async def _run(self, machine: "AdmissionMachine") -> None:
        async with machine.admission.slot(self.key):
            self.inside = True
            try:
                await self.end.wait()
            finally:
                self.inside = False


class AdmissionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        limits = Limits(RUNNING, QUEUED, TIMEOUT, PER_KEY)
        self.admission = Admission(limits, clock=self.loop.time)
        self.requests: list[Request] = []
        self.refused = 0

    def teardown(self) -> None:
        for request in self.requests:
            request.end.set()
        self.loop.settle()
        self.collect()
        assert self.requests == []
        assert (self.admission.running, self.admission.queued) == (0, 0)
        assert self.admission._of_key == {}
        assert self.admission._lines == {}
        self.loop.close()

    @rule(keys=st.lists(KEYS, min_size=1, max_size=4), settle=st.booleans())
    def arrive(self, keys: list[str | None], settle: bool) -> None:
        self.requests += [Request(self, key) for key in keys]
        if settle:
            self.loop.settle()

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), turns=TURNS, settle=st.booleans())
    def leave(self, data: Any, turns: int, settle: bool) -> None:
        """The client goes, wherever its request is."""
        self.loop.call_in(turns, data.draw(st.sampled_from(self.requests)).task.cancel)
        if settle:
            self.loop.settle()

    @precondition(lambda self: any(request.inside for request in self.requests))
    @rule(data=st.data(), turns=TURNS, settle=st.booleans())
    def end(self, data: Any, turns: int, settle: bool) -> None:
        inside = [request for request in self.requests if request.inside]
        self.loop.call_in(turns, data.draw(st.sampled_from(inside)).end.set)
        if settle:
            self.loop.settle()

    @rule(seconds=st.floats(0, 2 * TIMEOUT))
    def wait(self, seconds: float) -> None:
        self.loop.advance(seconds)

    @rule()
    def one_turn_of_the_loop(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    @invariant()
    def bounds_hold_at_any_moment(self) -> None:
        assert sum(request.inside for request in self.requests) <= RUNNING
        assert 0 <= self.admission.running <= RUNNING
        assert 0 <= self.admission.queued <= QUEUED

    @rule()
    def once_quiet_the_books_are_right(self) -> None:
        self.loop.settle()
        self.collect()
        inside = sum(request.inside for request in self.requests)
        assert self.admission.running == inside
        assert self.admission.queued == len(self.requests) - inside
        assert self.admission.rejected == self.refused
        if self.admission.queued:
            assert inside == RUNNING, "somebody waits beside a free place"
        for key in ("a", "b"):
            of_key = sum(request.key == key for request in self.requests)
            assert self.admission._of_key.get(key, 0) == of_key <= PER_KEY

    def collect(self) -> None:
        """Forget those who are through, and see that they ended as they may."""
        for request in self.requests:
            if request.task.done() and not request.task.cancelled():
                error = request.task.exception()
                assert error is None or isinstance(error, Overloaded)
                self.refused += error is not None
        self.requests = [request for request in self.requests if not request.task.done()]


TestAdmissionMachine = AdmissionMachine.TestCase
