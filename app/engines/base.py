"""The contract between the service and an engine."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from app.events import Event

JSONObject = dict[str, object]


@dataclass(frozen=True)
class EngineInfo:
    """What an engine says about itself, once it is up."""

    kind: str
    """``sglang``, or ``openai`` for any other OpenAI-compatible server."""
    models: tuple[str, ...]
    """Names of the models it serves; the first is the default."""
    version: str | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    deterministic: bool = False
    """Whether the same seed gives the same answer."""
    takes_system: bool = True
    """Whether the model's chat template has a place for a system message."""

    @property
    def is_sglang(self) -> bool:
        """Whether SGLang's own extensions (``rid``, ``/abort_request``) can be used."""
        return self.kind == "sglang"


class Engine(Protocol):
    """Generates answers to OpenAI chat-completion requests.

    Both ways to ask raise the errors of ``app.errors``; whatever is raised after the first
    event means that the answer is incomplete. Closing the iterator, or cancelling the call,
    frees what the engine holds for the request.
    """

    @property
    def info(self) -> EngineInfo:
        """What the engine is.

        Raises:
            EngineUnavailable: it is not up (yet).
        """

    async def complete(self, body: JSONObject) -> list[Event]:
        """All events of a plain answer."""

    def stream(self, body: JSONObject) -> AsyncGenerator[list[Event], None]:
        """Events of a streamed answer, in batches as they came in."""
