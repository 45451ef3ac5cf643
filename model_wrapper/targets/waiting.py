"""Watching an endpoint change, with what its logs have that is new."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from model_wrapper.targets.base import LogKind, Phase, State, Target, Unreachable

INTERVAL = 10.0
# A deployment takes minutes; the platform being away for some of them ends nothing.
_UNREACHABLE_FOR = 300.0


class StillWaiting(Exception):
    """The time is up; the endpoint goes on by itself."""


@dataclass(frozen=True)
class Look:
    """What was seen at one moment."""

    state: State
    seconds: float
    """Since the watch began."""
    lines: tuple[tuple[LogKind, str], ...] = ()
    """New lines of the logs of the version that is being deployed."""


class Clock:
    """Time as the watch uses it; tests have their own."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.now = now
        self.sleep = sleep


def watch(
    target: Target,
    endpoint: str,
    *,
    timeout: float,
    version: str | None = None,
    interval: float = INTERVAL,
    clock: Clock | None = None,
) -> Iterator[Look]:
    """Look again and again until the endpoint is ready or has failed; that look is the last.

    Args:
        target: where it is.
        endpoint: its name.
        timeout: seconds after which the watch ends.
        version: of the model, which must be the one that is ready; any, if None.
        interval: seconds between two looks.
        clock: for tests.

    Raises:
        StillWaiting: it was neither in time.
        TargetError: the platform refused, or was away for minutes.
    """
    clock = clock or Clock()
    began = seen = clock.now()
    reader = LogReader(target, endpoint)
    while True:
        try:
            state = target.state(endpoint)
            lines = tuple(_new_lines(reader, state))
            seen = clock.now()
            yield Look(state, seen - began, lines)
            if state.phase is Phase.FAILED or _is_ready(state, version):
                return
        except Unreachable:
            if clock.now() - seen > _UNREACHABLE_FOR:
                raise
        if clock.now() - began >= timeout:
            raise StillWaiting
        clock.sleep(interval)


def _is_ready(state: State, version: str | None) -> bool:
    # Right after a change the platform may still tell of the time before.
    serves = version is None or any(served.version == version for served in state.active)
    return state.phase is Phase.READY and serves


class LogReader:
    """The logs of an endpoint, as far as they were not told yet."""

    def __init__(self, target: Target, endpoint: str) -> None:
        self._target = target
        self._endpoint = endpoint
        self._told: dict[tuple[str, LogKind], str] = {}

    def new(self, served: str, kind: LogKind) -> Iterator[str]:
        """Lines that have come since the last time.

        Args:
            served: name of the served entity, see :class:`Served`.
            kind: which log.
        """
        text = self._target.log(self._endpoint, served, kind)
        told = self._told.get((served, kind), "")
        # A long log loses its beginning, so it need not begin with what was told.
        fresh = text[len(told) :] if text.startswith(told) else text
        self._told[served, kind] = text
        yield from (line for line in fresh.splitlines() if line.strip())


def _new_lines(reader: LogReader, state: State) -> Iterator[tuple[LogKind, str]]:
    if state.newest is None or not state.newest.name:
        return
    kinds: tuple[LogKind, ...] = ("build", "service")
    for kind in kinds:
        for line in reader.new(state.newest.name, kind):
            yield kind, line
