"""From the engine's events to one ChatAgent answer, whole or in pieces.

The same assembler serves both modes, which is what makes a stream equal to the plain answer:
a plain answer feeds it all at once, a stream feeds it bit by bit and sends what it releases.

What it repairs, each seen on a real engine (SGLang 0.4.6.post5 on a GPU, 0.5.23 on a CPU):

* Tool-call tags that the tokenizer splits into several tokens leak into the streamed text
  before and after a call. Text that may be such a tag is held back until it is clear.
* Streams go on with free text after a tool call, which the plain answer drops: so do we.
* A call whose arguments are no JSON object is no call: it is given back as text.
* A streamed call that the token limit cuts off is completed by the engine's parser: no call.
* ``finish_reason`` says ``tool_calls`` when there are calls, and only then.
* ``</think>`` inside the reasoning ends it; what follows is the answer.
* White space around the reasoning, and between it and the answer, differs between the modes.
* A model that finishes by itself without ever closing its thought has answered: then the
  reasoning is the answer. A thought cut short by the token limit stays reasoning.
"""

from dataclasses import dataclass, field

from app.errors import EngineFailed, engine_lost
from app.events import (
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    Usage,
)
from app.schemas.conversation import is_json_object

# What models write around a tool call: Qwen and Hermes, Mistral, Llama 3, DeepSeek V3.
_TAGS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<｜tool▁calls▁begin｜>")
_THINK, _END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class ToolCall:
    """A complete call: ``arguments`` is the JSON text of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """A finished answer."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish_reason: str = "stop"
    usage: Usage | None = None
    logprobs: tuple[object, ...] = ()


@dataclass
class _OpenCall:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    in_pieces: bool = False

    def close(self) -> ToolCall | None:
        arguments = "".join(self.arguments)
        return ToolCall(self.id, self.name, arguments) if is_json_object(arguments) else None

    def as_text(self) -> str:
        arguments = "".join(self.arguments)
        return f'{{"name": "{self.name}"' + (f', "arguments": {arguments}' if arguments else "")


class Assembler:
    """Takes events in order; releases text as early as it is sure, and the answer at the end.

    Args:
        answer_id: unique id of the answer; ids of tool calls are made from it where the
            engine gives none.
        has_tools: whether the request offered tools. Only then can text be a tag.
    """

    def __init__(self, answer_id: str, *, has_tools: bool) -> None:
        self._answer_id = answer_id
        self._has_tools = has_tools
        self._released: list[str] = []
        self._held = ""
        self._after_call: list[str] = []
        self._calls: list[_OpenCall] = []
        self._reasoning = _ReasoningSplitter()
        self._logprobs: list[object] = []
        self._usage: Usage | None = None
        self._finish_reason: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the engine has said why it stopped."""
        return self._finish_reason is not None

    def feed(self, event: Event) -> str:
        """Take one event; return text of the answer that is now certain (often "")."""
        if isinstance(event, TextDelta):
            return self._text(event.text)
        if isinstance(event, ReasoningDelta):
            return self._text(self._reasoning.feed(event.text))
        if isinstance(event, ToolCallDelta):
            self._tool_call(event)
        elif isinstance(event, Finished):
            self._finish_reason = event.reason
        elif isinstance(event, Usage):
            self._usage = event
        elif isinstance(event, TokenLogprobs):
            self._logprobs.extend(event.content)
        return ""

    def _text(self, text: str) -> str:
        if self._calls:
            self._after_call.append(text)
            return ""
        if self._reasoning.seen and not self._released:
            text = (self._held + text).lstrip()
            self._held = ""
        if not self._has_tools:
            return self._release(text)
        text = self._held + text
        start = _possible_tag(text)
        self._held = text[start:]
        return self._release(text[:start])

    def _release(self, text: str) -> str:
        if text:
            self._released.append(text)
        return text

    def _tool_call(self, delta: ToolCallDelta) -> None:
        if delta.name:
            call_id = delta.id or f"call_{self._answer_id}_{len(self._calls)}"
            self._calls.append(_OpenCall(call_id, delta.name))
        if self._calls and delta.arguments:
            self._calls[-1].in_pieces = not delta.name
            self._calls[-1].arguments.append(delta.arguments)

    def finish(self) -> tuple[str, Answer]:
        """The last text, not yet released, and the whole answer.

        Raises:
            EngineUnavailable: the stream ended in the middle of the answer.
            EngineFailed: the engine gave the request up.
        """
        if self._finish_reason is None:
            raise engine_lost()
        if self._finish_reason == "abort":
            raise EngineFailed("The engine gave the request up before its end.")
        whole = self._calls[:-1] if self._cut_in_a_call() else self._calls
        calls = tuple(call for opened in whole if (call := opened.close()))
        rest = "" if calls else self._held + self._broken_calls()
        reasoning = self._reasoning.text
        reason = self._finish_reason
        if calls and reason == "stop":
            reason = "tool_calls"
        elif not calls and reason == "tool_calls":
            reason = "stop"
        if reasoning and reason == "stop" and not "".join([*self._released, rest]).strip():
            reasoning, rest = "", reasoning
        self._release(rest)
        return rest, Answer(
            content="".join(self._released),
            tool_calls=calls,
            reasoning=reasoning,
            finish_reason=reason,
            usage=self._usage,
            logprobs=tuple(self._logprobs),
        )

    def _cut_in_a_call(self) -> bool:
        """Whether the token limit fell inside the last call.

        SGLang's parser then completes the partial JSON of a streamed call, so that it looks
        whole: ``{"city": "`` becomes ``{"city": ""}``. After a call that is truly over comes at
        least its closing tag. Plain answers are parsed at their end and have no such calls.
        """
        cut = self._finish_reason == "length" and not self._after_call
        return cut and bool(self._calls) and self._calls[-1].in_pieces

    def _broken_calls(self) -> str:
        return "".join(call.as_text() for call in self._calls) + "".join(self._after_call)


class _ReasoningSplitter:
    """Collects reasoning; hands back what comes after ``</think>``, which is no reasoning."""

    def __init__(self) -> None:
        self._text = ""
        self._closed = False
        self.seen = False

    def feed(self, text: str) -> str:
        if self._closed:
            return text
        self.seen = self.seen or bool(text)
        self._text += text
        # The tag may have come in several pieces, so look where it can have begun.
        start = max(0, len(self._text) - len(text) - len(_END_THINK))
        found = self._text.find(_END_THINK, start)
        if found < 0:
            return ""
        after = self._text[found + len(_END_THINK) :]
        self._text = self._text[:found]
        self._closed = True
        return after

    @property
    def text(self) -> str:
        return self._text.strip().removeprefix(_THINK).strip()


def _possible_tag(text: str) -> int:
    """Where the end of ``text`` begins that may be a tool-call tag, whole or in part.

    White space before a tag belongs to the tag.
    """
    bare = text.rstrip()
    for tag in _TAGS:
        if bare.endswith(tag):
            return len(bare.removesuffix(tag).rstrip())
        for size in range(min(len(tag) - 1, len(text)), 0, -1):
            if text.endswith(tag[:size]):
                return len(text[:-size].rstrip())
    return len(bare)
