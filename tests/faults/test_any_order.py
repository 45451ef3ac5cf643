"""Any order of requests, departures and faults of the engine: each caller gets an end.

A gateway over real HTTP in front of an engine that breaks off, falls silent, talks nonsense,
freezes, or is gone and comes back. Hypothesis chooses the order, and makes a failing one short.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.gateway import new_client, running_gateway
from tests.contract.outcome import invoke
from tests.faults.test_broken_engine import QUESTION, WITHIN, check, queue_fault, until_idle
from tests.replay import ReplayEngine

LIMITS = {
    "idle_timeout": 0.5,
    "request_timeout": 1.0,
    "keep_alive_interval": 0.1,
    "max_concurrent_requests": 2,
    "max_queued_requests": 1,
}
AT_MOST = 10

Found = TypeVar("Found")


class Stage:
    """Gateway, engine and client, in an event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._stack = AsyncExitStack()
        self.ends: Counter[str] = Counter()
        self.do(self._set_up())

    async def _set_up(self) -> None:
        self.engine = await self._stack.enter_async_context(ReplayEngine())
        self.url = await self._stack.enter_async_context(running_gateway(self.engine, **LIMITS))
        self.client = await self._stack.enter_async_context(new_client())

    def do(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Run something there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WITHIN)

    async def ask(self, *, stream: bool) -> asyncio.Task[str]:
        """A request that is under way; what came of it."""
        return asyncio.create_task(self._ask(stream=stream))

    async def _ask(self, *, stream: bool) -> str:
        async with asyncio.timeout(WITHIN):
            return check(await invoke(self.client, self.url, QUESTION | {"stream": stream}))

    async def leave(self, request: asyncio.Task[str]) -> None:
        """Its caller goes away."""
        request.cancel()
        await asyncio.wait({request})
        if not request.cancelled():
            request.result()  # it was over before that, well or with an error of the test
        self.ends["left"] += 1

    async def end(self, request: asyncio.Task[str]) -> None:
        """Wait for what comes of it."""
        self.ends[await request] += 1

    async def alive(self) -> int:
        """The status of the route that says whether the gateway lives."""
        async with self.client.get(f"{self.url}/health/live") as answer:
            return answer.status

    async def settle(self) -> None:
        """Until nothing is held, and requests are answered again."""
        await until_idle(self.client, self.url)
        async with asyncio.timeout(WITHIN):
            for stream in (False, True):
                while await self._ask(stream=stream) != "answer":  # noqa: ASYNC110
                    await asyncio.sleep(0.2)

    def close(self) -> None:
        """End everything."""
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class GatewayMachine(RuleBasedStateMachine):
    stage: Stage
    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[asyncio.Task[str]] = []
        self.gone = False

    def teardown(self) -> None:
        stage, engine = self.stage, self.stage.engine
        if self.gone:
            stage.do(engine.rise())
        engine.thaw()
        engine.forget()
        for request in self.open:
            stage.do(stage.end(request))
        stage.do(stage.settle())

    @precondition(lambda self: len(self.open) < AT_MOST)
    @rule(
        target=requests,
        dice=st.randoms(),
        kinds=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5),
    )
    def ask(self, dice: Any, kinds: list[tuple[bool, bool]]) -> Any:
        requests = []
        for stream, broken in kinds:
            if broken:
                queue_fault(self.stage.engine, dice, stream=stream)
            requests.append(self.stage.do(self.stage.ask(stream=stream)))
        self.open += requests
        return multiple(*requests)

    @rule(request=consumes(requests))
    def leave(self, request: asyncio.Task[str]) -> None:
        self.open.remove(request)
        self.stage.do(self.stage.leave(request))

    @rule(request=consumes(requests))
    def end(self, request: asyncio.Task[str]) -> None:
        self.open.remove(request)
        self.stage.do(self.stage.end(request))

    @rule(frozen=st.booleans())
    def freeze(self, frozen: bool) -> None:
        (self.stage.engine.freeze if frozen else self.stage.engine.thaw)()

    @rule()
    def die_or_rise(self) -> None:
        engine = self.stage.engine
        self.stage.do(engine.rise() if self.gone else engine.die())
        self.gone = not self.gone

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.6]))
    def let_time_pass(self, seconds: float) -> None:
        self.stage.do(asyncio.sleep(seconds))

    @invariant()
    def lives(self) -> None:
        assert self.stage.do(self.stage.alive()) == 200


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.mark.timeout(600)
def test_any_order(stage: Stage) -> None:
    GatewayMachine.stage = stage
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        GatewayMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    # It has met each kind of end, or it would show little.
    expected = {"answer", "left", "TEMPORARILY_UNAVAILABLE", "DEADLINE_EXCEEDED"}
    assert expected <= stage.ends.keys()
