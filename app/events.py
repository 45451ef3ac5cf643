"""What an engine says while it answers: the one vocabulary between engines and schemas.

A plain answer is the same events as a streamed one, only fewer and larger, so whatever is
built from events is equal in both modes.
"""

import msgspec


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the visible answer."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of the model's reasoning, which is kept apart from the answer."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """A piece of a tool call: one with a name opens a call, one without continues the last.

    There is no index: the engine pinned for CUDA 12.4 numbers streamed calls wrongly.
    """

    id: str | None
    name: str | None
    arguments: str


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of the tokens of this piece, in OpenAI's form."""

    content: list[object]


class Usage(msgspec.Struct, frozen=True):
    """Token counts of the whole request, as far as they are known."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int | None = None


class Finished(msgspec.Struct, frozen=True):
    """Why the engine stopped: ``stop``, ``length``, ``tool_calls``, ``content_filter``."""

    reason: str


Event = TextDelta | ReasoningDelta | ToolCallDelta | TokenLogprobs | Usage | Finished
