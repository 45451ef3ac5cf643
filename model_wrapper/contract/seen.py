"""One vocabulary for the answers of MLflow's three chat interfaces, so that one suite serves all.

Shapes: ``mlflow/types/agent.py``, ``responses.py`` and ``llm.py``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

JSONObject = dict[str, Any]

AGENT, RESPONSES, CHAT = "chat-agent", "responses-agent", "chat-model"


@dataclass
class Seen:
    """An answer, or what the chunks of a stream add up to."""

    text: str = ""
    ids: list[str] = field(default_factory=list)
    """Id of the message, once for each message or chunk."""
    finishes: list[str] = field(default_factory=list)
    usages: list[tuple[int, int, int]] = field(default_factory=list)
    """Tokens of prompt, answer and both."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, function and arguments of each tool call."""
    pieces: int = 0

    @property
    def finish(self) -> str | None:
        """The last finish reason."""
        return self.finishes[-1] if self.finishes else None


def interface_of(inputs: Iterable[str]) -> str:
    """Which interface a logged model has, by the inputs in its signature."""
    names = set(inputs)
    if "input" in names:
        return RESPONSES
    return CHAT if "temperature" in names else AGENT


def request(
    interface: str,
    messages: list[JSONObject],
    *,
    tools: list[JSONObject] | None = None,
    **parameters: Any,
) -> JSONObject:
    """A request in the words of an interface; ``parameters`` are those of ``custom_inputs``."""
    if interface == AGENT:
        inputs = parameters | ({"tools": tools} if tools else {})
        return {"messages": messages, "custom_inputs": inputs}
    if interface == RESPONSES:
        body: JSONObject = {"input": messages, "custom_inputs": parameters}
        for ours, theirs in (("temperature", "temperature"), ("max_tokens", "max_output_tokens")):
            if ours in parameters:
                body[theirs] = parameters.pop(ours)
        if tools:
            # A logged ResponsesAgent can't be given functions as ``tools``: the signature that
            # MLflow 3.17 makes for it knows only ``type`` there, and refuses their other fields.
            parameters["tools"] = tools
        return body
    own: JSONObject = {
        name: parameters.pop(name) for name in ("temperature", "max_tokens") if name in parameters
    }
    if tools:
        own["tools"] = tools
    return {"messages": messages, **own, "custom_inputs": parameters}


def read_answer(interface: str, answer: JSONObject) -> Seen:
    """A whole answer."""
    seen = Seen(pieces=1)
    _READ_ANSWER[interface](seen, answer)
    return seen


def read_stream(interface: str, chunks: Iterable[JSONObject]) -> Seen:
    """A stream, read to its end."""
    seen = Seen()
    for chunk in chunks:
        seen.pieces += 1
        _READ_CHUNK[interface](seen, chunk)
    return seen


def _agent_answer(seen: Seen, answer: JSONObject) -> None:
    for message in answer["messages"]:
        _message(seen, message, message.get("id"))
    _closing(seen, answer)


def _agent_chunk(seen: Seen, chunk: JSONObject) -> None:
    _message(seen, chunk["delta"], chunk["delta"].get("id"))
    _closing(seen, chunk)


def _chat_answer(seen: Seen, answer: JSONObject) -> None:
    for choice in answer["choices"]:
        _message(seen, choice.get("message") or choice["delta"], answer.get("id"))
        if choice.get("finish_reason"):
            seen.finishes.append(choice["finish_reason"])
    _usage(seen, answer.get("usage"))


def _responses_answer(seen: Seen, answer: JSONObject) -> None:
    for item in answer["output"]:
        if item["type"] == "message":
            seen.ids.append(item["id"])
            seen.text += "".join(part["text"] for part in item["content"])
        elif item["type"] == "function_call":
            seen.ids.append(item["id"])
            seen.calls.append((item["call_id"], item["name"], item["arguments"]))
    if answer.get("status") == "incomplete":
        seen.finishes.append("length")
    elif answer.get("status") == "completed":
        seen.finishes.append("tool_calls" if seen.calls else "stop")
    _usage(seen, answer.get("usage"), "input_tokens", "output_tokens")


def _responses_event(seen: Seen, event: JSONObject) -> None:
    if event["type"] == "response.output_text.delta":
        seen.ids.append(event["item_id"])
        seen.text += event["delta"]
    elif event["type"] == "response.completed":
        whole = Seen()
        _responses_answer(whole, event["response"])
        seen.calls, seen.finishes, seen.usages = whole.calls, whole.finishes, whole.usages
        if not seen.text:
            seen.ids, seen.text = whole.ids, whole.text


def _message(seen: Seen, message: JSONObject, message_id: str | None) -> None:
    seen.text += message.get("content") or ""
    seen.ids.append(message_id or "")
    for call in message.get("tool_calls") or ():
        function = call["function"]
        seen.calls.append((call.get("id") or "", function["name"], function["arguments"]))


def _closing(seen: Seen, chunk: JSONObject) -> None:
    if chunk.get("finish_reason"):
        seen.finishes.append(chunk["finish_reason"])
    _usage(seen, chunk.get("usage"))


def _usage(
    seen: Seen,
    usage: JSONObject | None,
    prompt: str = "prompt_tokens",
    completion: str = "completion_tokens",
) -> None:
    if usage and usage.get("total_tokens") is not None:
        seen.usages.append((usage[prompt], usage[completion], usage["total_tokens"]))


_Reader = Callable[[Seen, JSONObject], None]
_READ_ANSWER: dict[str, _Reader] = {
    AGENT: _agent_answer,
    RESPONSES: _responses_answer,
    CHAT: _chat_answer,
}
_READ_CHUNK: dict[str, _Reader] = {
    AGENT: _agent_chunk,
    RESPONSES: _responses_event,
    CHAT: _chat_answer,
}
