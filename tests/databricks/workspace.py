"""A workspace as the tests script it: its registry, its endpoints and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.databricks.bodies import Config, Gateway

# What ``log`` writes into every model.
DEFAULTS = {"interface": "chat-agent", "request_timeout": 290}


NO_STREAMS = (400, "BAD_REQUEST", "This endpoint does not support streaming.")
CUT = "the connection breaks here"


@dataclass(frozen=True)
class Step:
    """One state in the course of a change. Each look at the endpoint goes on to the next one."""

    deployment: str = "DEPLOYMENT_CREATING"
    message: str = ""
    build_log: str | None = None
    service_log: str | None = None
    outcome: str | None = None
    """How the change ended: ``ready``, ``failed`` or ``canceled``; None while it goes on. Steps
    after ``ready`` are of what is served by then."""


READY = Step("DEPLOYMENT_READY", outcome="ready")
RECOVERING = Step("DEPLOYMENT_RECOVERING", outcome="ready")
CANCELED = Step("DEPLOYMENT_ABORTED", "Canceled by a user", outcome="canceled")


def failed(message: str, deployment: str = "DEPLOYMENT_FAILED", **logs: str) -> Step:
    """The end of a change that did not succeed."""
    return Step(deployment, message, outcome="failed", **logs)


@dataclass
class Version:
    """One registered version and its files."""

    model: str
    number: int
    status: str
    files: dict[str, bytes | int]
    """Contents, or only the size where nobody reads them."""
    aliases: tuple[str, ...] = ()


@dataclass
class Endpoint:
    """One serving endpoint."""

    name: str
    gateway: Gateway | None = None
    tags: dict[str, str] = field(default_factory=dict)
    active: Config | None = None
    pending: Config | None = None
    step: Step | None = None
    rest: list[Step] = field(default_factory=list)
    logs: dict[tuple[str, str], str] = field(default_factory=dict)
    before: list[Any] = field(default_factory=list)
    """What the next looks at it see, see ``Workspace.lag``."""
    message: str = ""
    """Of what is served, such as "Scaled to zero"."""

    def change(self, config: Config, steps: list[Step]) -> None:
        """Begin to serve something else."""
        self.pending, self.rest = config, list(steps)
        self.go_on()

    def go_on(self) -> None:
        """To the next step, if there is one."""
        if not self.rest:
            return
        self.step = self.rest.pop(0)
        if self.pending is None:
            return
        name = self.pending.served_entities[0].name
        for kind, text in (("build", self.step.build_log), ("service", self.step.service_log)):
            if text is not None:
                self.logs[name, kind] = text
        if self.step.outcome == "ready":
            self.active, self.pending = self.pending, None

    def as_json(self, task: str | None) -> dict[str, Any]:
        """As the REST API describes it, ``ServingEndpointDetailed``."""
        updates = {
            None: "IN_PROGRESS",
            "ready": "NOT_UPDATING",
            "failed": "UPDATE_FAILED",
            "canceled": "UPDATE_CANCELED",
        }
        outcome = self.step.outcome if self.step else "ready"
        # While a change goes on, or after it has failed, what was served before answers.
        served = self.step if self.step and self.pending is None else READY
        answers = self.active and served.deployment == "DEPLOYMENT_READY"
        told: dict[str, Any] = {
            "name": self.name,
            "state": {
                "ready": "READY" if answers else "NOT_READY",
                "config_update": updates[outcome],
            },
            "task": task,
            "tags": [{"key": key, "value": value} for key, value in self.tags.items()],
        }
        if self.active:
            entities = self._entities(self.active, served.deployment, self.message)
            told["config"] = {"served_entities": entities}
        if self.pending and self.step:
            state = self.step
            entities = self._entities(self.pending, state.deployment, state.message)
            told["pending_config"] = {"served_entities": entities}
        if self.gateway:
            told["ai_gateway"] = self.gateway.model_dump(exclude_none=True)
        return told

    def as_listed(self, task: str | None) -> dict[str, Any]:
        """As the list of all has it, ``ServingEndpoint``: and ``ServedEntitySpec``."""
        told = self.as_json(task)
        told.pop("pending_config", None)
        fields = ("name", "entity_name", "entity_version")
        for config in [told["config"]] if self.active else []:
            entities = config["served_entities"]
            config["served_entities"] = [{key: each[key] for key in fields} for each in entities]
        return told

    def _entities(self, config: Config, deployment: str, message: str = "") -> list[dict[str, Any]]:
        state = {"deployment": deployment, "deployment_state_message": message}
        return [
            {**entity.model_dump(exclude_none=True), "state": state}
            for entity in config.served_entities
        ]


class Workspace:
    """All of it, behind the address that :mod:`tests.databricks.server` gives it."""

    token = "a-token-of-the-tests"

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.volumes: dict[str, int] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.requests: list[tuple[str, str, Any]] = []
        """Method, path and body of each request, in their order."""
        self.faults: list[tuple[int, str, str]] = []
        """Status, error code and message of answers that come before any other."""
        self.steps: list[Step] = [Step(), READY]
        """Of every change that begins, but for those with a script."""
        self.scripts: dict[str, list[Step]] = {}
        self.refusals: dict[str, tuple[int, str, str]] = {}
        """The same for one call every time, by the name of its method in ``server.API``."""
        self.lag = 0
        """Looks at an endpoint that still see how it was before a change."""
        self.answer: Any = None
        """Instead of the plain answer of a model."""
        self.stream: list[str] | None = None
        """Instead of its events; at ``CUT`` the connection breaks."""
        self.stream_type = "text/event-stream"

    def register(
        self,
        name: str = "main.chat.qwen",
        number: int = 1,
        *,
        status: str = "READY",
        aliases: tuple[str, ...] = (),
        task: str = "agent/v2/chat",
        weights: int = 300_000_000,
        requirements: tuple[str, ...] = ("mlflow==3.17.2", "sglang==0.4.6.post5"),
        config: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        **mlmodel: Any,
    ) -> None:
        """A version as ``log --register`` makes it."""
        described = {
            "mlflow_version": "3.17.2",
            "metadata": {"task": task, **(metadata or {})},
            "flavors": {"python_function": {"config": {**DEFAULTS, **(config or {})}}},
            **mlmodel,
        }
        files: dict[str, bytes | int] = {
            "MLmodel": yaml.safe_dump(described).encode(),
            "requirements.txt": "\n".join(requirements).encode(),
        }
        if weights:
            files["artifacts/qwen/model.safetensors"] = weights
        self.versions.append(Version(name, number, status, files, aliases))

    def script(self, endpoint: str, *steps: Step) -> None:
        """What becomes of the changes of one endpoint."""
        self.scripts[endpoint] = list(steps)

    def steps_of(self, endpoint: str) -> list[Step]:
        """What becomes of a change that begins now."""
        return self.scripts.get(endpoint, self.steps)

    def version(self, name: str, number: int) -> Version | None:
        """A registered version."""
        found = (each for each in self.versions if (each.model, each.number) == (name, number))
        return next(found, None)

    def files(self) -> dict[str, bytes | int]:
        """Every file that the Files API has, by its path."""
        found: dict[str, bytes | int] = dict(self.volumes)
        for version in self.versions:
            folder = f"/Models/{version.model.replace('.', '/')}/{version.number}"
            found |= {f"{folder}/{name}": content for name, content in version.files.items()}
        return found

    def task_of(self, endpoint: Endpoint) -> str | None:
        """What the model that an endpoint serves says about itself."""
        config = endpoint.active or endpoint.pending
        if config is None:
            return None
        entity = config.served_entities[0]
        version = self.version(entity.entity_name, int(entity.entity_version))
        if version is None:
            return None
        content = version.files["MLmodel"]
        assert isinstance(content, bytes)
        return str(yaml.safe_load(content)["metadata"]["task"])
