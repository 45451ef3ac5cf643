"""What the commands need to know of a place that serves registered models.

A new target is a class with the methods of :class:`Target`; the commands speak in the words of this
file and never in a platform's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

JSONObject = dict[str, object]
LogKind = Literal["build", "service"]


class TargetError(Exception):
    """The platform refused something or can't be reached; the message is for people.

    Args:
        message: the platform's own words where it had any.
        mistake: whether the call itself was wrong, so that trying again is in vain.
    """

    def __init__(self, message: str, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake


class NoSuchEndpoint(TargetError):
    """There is no endpoint of that name."""


class Unreachable(TargetError):
    """The platform did not answer, or not sensibly; the same call may well work later."""


@dataclass(frozen=True)
class InferenceTable:
    """Where requests and answers are recorded."""

    catalog: str
    schema: str
    prefix: str | None = None


@dataclass(frozen=True)
class RateLimit:
    """Calls for each minute, of the whole endpoint or of each user."""

    calls: int
    key: Literal["endpoint", "user"] = "endpoint"


@dataclass(frozen=True)
class Deployment:
    """What an endpoint shall serve."""

    endpoint: str
    model: str
    version: str
    workload: str
    size: str
    scale_to_zero: bool
    environment: Mapping[str, str] = field(default_factory=dict)
    inference_table: InferenceTable | None = None
    rate_limits: tuple[RateLimit, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


class Phase(Enum):
    """Where an endpoint is, or its newest change."""

    UPDATING = "updating"
    READY = "ready"
    FAILED = "failed"
    NOT_READY = "not ready"


@dataclass(frozen=True)
class Served:
    """A model version inside an endpoint."""

    name: str
    model: str
    version: str
    workload: str
    size: str
    scale_to_zero: bool
    environment: Mapping[str, str]
    deployment: str = ""
    message: str = ""


@dataclass(frozen=True)
class State:
    """An endpoint at one moment.

    ``active`` answers requests now; ``pending`` will, once its update succeeds.
    """

    endpoint: str
    phase: Phase
    active: tuple[Served, ...]
    pending: tuple[Served, ...]
    task: str | None
    url: str
    tags: Mapping[str, str]
    answering: bool

    @property
    def newest(self) -> Served | None:
        """The model version that the last change was about."""
        return next(iter(self.pending or self.active), None)


@dataclass(frozen=True)
class RegisteredModel:
    """A registered version, as far as deploying it goes."""

    name: str
    version: str
    metadata: Mapping[str, object]
    config: Mapping[str, object]
    code_file: str
    mlflow_version: str
    requirements: tuple[str, ...]
    packed_environment: bool
    weights: int | None

    @property
    def task(self) -> str | None:
        """MLflow's name for the schema of requests and answers."""
        task = self.metadata.get("task")
        return None if task is None else str(task)

    @property
    def interface(self) -> str:
        """``chat-agent``, ``responses-agent``, ``chat-model``, or ``openai`` with an entrypoint."""
        if "entrypoint" in self.metadata:
            return "openai"
        name = self.config.get("interface") or self.code_file.rpartition("/")[2].removesuffix(".py")
        return str(name).replace("_", "-")

    @property
    def needs_gpu(self) -> bool:
        """Whether it was logged with an engine for GPUs; the CPU's is not among requirements."""
        return any(line.startswith("sglang") for line in self.requirements)


class Asked(Protocol):
    """What answers questions."""

    def invoke(self, endpoint: str, body: JSONObject) -> JSONObject:
        """Ask the endpoint and return its whole answer."""

    def stream(self, endpoint: str, body: JSONObject) -> Iterator[JSONObject]:
        """Ask the endpoint and return its events as they come."""


class Target(Asked, Protocol):
    """A place that serves registered models."""

    @property
    def cloud(self) -> str:
        """The cloud that it runs on: ``aws``, ``azure`` or ``gcp``."""

    def registered(self, name: str, version: str | None, alias: str | None) -> RegisteredModel:
        """A registered version: that one, the one with the alias, or the newest that is ready."""

    def versions(self, name: str) -> list[int]:
        """All versions that can be served, in ascending order."""

    def create(self, wish: Deployment) -> None:
        """Make a new endpoint; returns before it is up."""

    def update(self, wish: Deployment) -> None:
        """Change an endpoint; it goes on serving what it did until the change is through."""

    def state(self, endpoint: str) -> State:
        """The endpoint now."""

    def states(self) -> Iterator[State]:
        """All endpoints of the workspace, in less detail."""

    def log(self, endpoint: str, served: str, kind: LogKind) -> str:
        """The log of building the container or of running it; empty when there is none yet."""

    def delete(self, endpoint: str) -> None:
        """Remove the endpoint."""
