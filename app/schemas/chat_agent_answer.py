"""ChatAgent's answer on the wire: one response, or chunks.

Everything here is valid for every MLflow from 2.20.2 to the newest (``mlflow/types/agent.py``
of each): a role, string content and an id in each message and chunk, whole tool calls, no chunk
with neither content nor calls, ``custom_outputs`` in one chunk at most. A top-level ``id`` is
not in MLflow's schema (which drops it) but Databricks' own clients ask for it. JSON is ASCII,
because raw U+2028 and U+0085 break MLflow's client.
"""

import contextlib
import json
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii

import msgspec

from app.events import Usage
from app.schemas.answer import Answer, Assembler
from app.schemas.chat_agent_answer_types import (
    AnswerMessage,
    AnswerToolCall,
    ChatAgentChunk,
    ChatAgentResponse,
    Closing,
    CustomOutputs,
    TokenUsage,
)
from app.sse import encode_event

# MLflow 2.x refuses a message whose content is "" and which has no tool calls, so an answer
# without a single character is sent as a blank.
BLANK = " "


def message_id(answer_id: str) -> str:
    """Id of the one message that an answer has, the same in both modes."""
    return f"msg_{answer_id}"


def response(answer: Answer, answer_id: str) -> ChatAgentResponse:
    """A ``ChatAgentResponse`` as a JSON object."""
    message = _message(answer.content, answer_id, answer)
    return {"id": answer_id, "messages": [message], **_closing_fields(answer)}


def text_chunk(text: str, answer_id: str) -> ChatAgentChunk:
    """A ``ChatAgentChunk`` with text, as a JSON object."""
    return {"id": answer_id, "delta": _delta(text, answer_id)}


def last_chunks(text: str, answer: Answer, answer_id: str) -> Iterator[ChatAgentChunk]:
    """The chunks that end a stream; ``text`` is what of the content was not yet sent."""
    if answer.tool_calls and text:
        yield text_chunk(text, answer_id)
        text = ""
    yield {
        "id": answer_id,
        "delta": _message(text, answer_id, answer),
        **_closing_fields(answer),
    }


class ChunkStream:
    """Events in, chunks out, always one character behind.

    The last chunk has to carry ``finish_reason`` and ``usage``, which arrive after the text, and
    MLflow 2.x takes no chunk without content: so one character is held until more text comes. A
    whole piece would do as well, but would be late by the time that the model takes for a token.
    """

    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self._held = ""

    def push(self, text: str) -> str:
        """Take more text; return what of it can go."""
        if not text:
            return ""
        text = self._held + text
        # What comes together with the end goes out with it.
        ready = 0 if self.assembler.finished else len(text) - 1
        self._held = text[ready:]
        return text[:ready]

    def take(self) -> str:
        """What is held, when the stream fails and there will be no last chunk."""
        held, self._held = self._held, ""
        return held

    def finish(self) -> tuple[str, Answer]:
        """The text that is left for the last chunk, and the whole answer."""
        rest, answer = self.assembler.finish()
        return self._held + rest, answer


class ChunkEncoder:
    """Chunks as server-sent events. Id and role stay the same, so a frame is made once."""

    def __init__(self, answer_id: str) -> None:
        self._answer_id = answer_id
        frame = encode(text_chunk("\0", answer_id)).decode()
        self._head, self._tail = frame.split('"\\u0000"')

    def text(self, text: str) -> bytes:
        """A chunk with text."""
        frame = self._head + encode_basestring_ascii(text) + self._tail
        return encode_event(frame.encode("ascii"))

    def last(self, text: str, answer: Answer) -> bytes:
        """The end of the stream, but for ``[DONE]``."""
        chunks = last_chunks(text, answer, self._answer_id)
        return b"".join(encode_event(encode(chunk)) for chunk in chunks)


def encode(value: object) -> bytes:
    """Compact ASCII JSON."""
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
        data = msgspec.json.encode(value)  # ten times as fast, and can't escape
        if data.isascii():
            return data
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def tool_calls(answer: Answer) -> list[AnswerToolCall]:
    """The answer's calls in OpenAI's form, which MLflow has taken over."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in answer.tool_calls
    ]


def _delta(content: str, answer_id: str) -> AnswerMessage:
    return {"role": "assistant", "content": content, "id": message_id(answer_id)}


def _message(content: str, answer_id: str, answer: Answer) -> AnswerMessage:
    if not answer.tool_calls:
        return _delta(content or BLANK, answer_id)
    return {**_delta(content, answer_id), "tool_calls": tool_calls(answer)}


def _closing_fields(answer: Answer) -> Closing:
    closing: Closing = {"finish_reason": answer.finish_reason}
    if answer.usage is not None:
        closing["usage"] = _usage(answer.usage)
    outputs: CustomOutputs = {}
    if answer.reasoning:
        outputs["reasoning_content"] = answer.reasoning
    if answer.logprobs:
        outputs["logprobs"] = {"content": list(answer.logprobs)}
    if outputs:
        closing["custom_outputs"] = outputs
    return closing


def _usage(usage: Usage) -> TokenUsage:
    counts: TokenUsage = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts
