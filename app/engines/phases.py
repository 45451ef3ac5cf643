"""The states of an engine, and which may follow which."""

import logging
import time
from dataclasses import dataclass, field
from enum import StrEnum

from app.engines.base import JSONObject

log = logging.getLogger(__name__)


class Phase(StrEnum):
    """Where an engine is in its life."""

    STARTING = "starting"
    """Finding the model, or downloading or converting it, or waiting to be started again."""
    LOADING = "loading"
    """The process runs and reads its weights, or the server we attach to does not answer yet."""
    WARMING = "warming"
    """It answers, and works on our first requests."""
    READY = "ready"
    DEGRADED = "degraded"
    """It was ready, and now gives no sign of life. It comes back, or is given up."""
    DRAINING = "draining"
    """We are shutting down, and finish the open requests."""
    STOPPED = "stopped"
    FAILED = "failed"
    """Given up for good."""


_ENDS = frozenset({Phase.DRAINING, Phase.STOPPED, Phase.FAILED})
# Which phase may follow which; anything may end.
_NEXT = {
    Phase.STARTING: {Phase.STARTING, Phase.LOADING} | _ENDS,
    Phase.LOADING: {Phase.STARTING, Phase.LOADING, Phase.WARMING} | _ENDS,
    Phase.WARMING: {Phase.STARTING, Phase.LOADING, Phase.READY} | _ENDS,
    Phase.READY: {Phase.STARTING, Phase.DEGRADED} | _ENDS,
    Phase.DEGRADED: {Phase.STARTING, Phase.WARMING, Phase.READY} | _ENDS,
    Phase.DRAINING: _ENDS,
    Phase.FAILED: {Phase.STOPPED},
    Phase.STOPPED: set[Phase](),
}


@dataclass(frozen=True)
class Status:
    """A phase, why it is what it is, and since when."""

    phase: Phase
    reason: str
    since: float = field(default_factory=time.monotonic)
    log_tail: tuple[str, ...] = ()
    progress: str | None = None
    """What of the weights is loaded, such as ``3/8`` of their files."""

    def as_dict(self) -> JSONObject:
        """The body of ``/health/ready``."""
        seconds = round(time.monotonic() - self.since, 1)
        shown: JSONObject = {"phase": self.phase, "reason": self.reason, "seconds": seconds}
        if self.progress:
            shown["shards"] = self.progress
        return shown | ({"log": list(self.log_tail)} if self.log_tail else {})


class Lifecycle:
    """The phase that an engine is in, and the only way to another one."""

    def __init__(self) -> None:
        self.status = Status(Phase.STARTING, "not started yet")

    @property
    def phase(self) -> Phase:
        """Where the engine is now."""
        return self.status.phase

    @property
    def ending(self) -> bool:
        """Whether it will never be ready again."""
        return self.phase in _ENDS

    def enter(self, phase: Phase, reason: str) -> None:
        """Go on to a phase.

        Once the end has begun, news of a start that is still under way no longer matter.

        Raises:
            ValueError: that phase can't follow the present one.
        """
        if self.ending and phase not in _ENDS:
            return
        if phase not in _NEXT[self.phase]:
            raise ValueError(f"an engine can't go from {self.phase} to {phase}")
        self.status = Status(phase, reason)
        log.info("engine %s: %s", phase, reason)
