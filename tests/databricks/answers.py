"""What a served model answers, by its task. The same words in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WORDS = ["Red, ", "green, ", "blue."]
COMPLETION = {"id": "1", "created": 1, "model": "qwen"}
CHUNK = {**COMPLETION, "object": "chat.completion.chunk"}
USAGE = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def refusal(task: str | None, body: dict[str, Any]) -> str | None:
    """Why a request does not fit the schema."""
    wanted = {"agent/v2/chat": "messages", "agent/v1/responses": "input", "llm/v1/chat": "messages"}
    key = wanted.get(task or "")
    if not isinstance(body.get(key or ""), list):
        return f"Model is missing inputs ['{key}']"
    allowed = {
        "agent/v2/chat": {"messages", "custom_inputs", "context", "stream"},
        "agent/v1/responses": {"input", "max_output_tokens", "temperature", "stream"},
        "llm/v1/chat": {"messages", "max_tokens", "temperature", "stream"},
    }[task or ""]
    unknown = sorted(body.keys() - allowed)
    return f"Invalid properties not defined in the schema found: {unknown}" if unknown else None


def whole(task: str | None) -> dict[str, Any]:
    """The plain answer."""
    text = "".join(WORDS)
    if task == "agent/v2/chat":
        message = {"role": "assistant", "content": text, "id": "1"}
        return {"messages": [message], "finish_reason": "stop", "id": "1"}
    if task == "agent/v1/responses":
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": "1", "role": "assistant", "content": content}
        return {"object": "response", "output": [item]}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**COMPLETION, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def pieces(task: str | None) -> Iterator[dict[str, Any]]:
    """The events of a stream."""
    for word in WORDS:
        if task == "agent/v2/chat":
            yield {"delta": {"role": "assistant", "content": word, "id": "1"}, "id": "1"}
        elif task == "agent/v1/responses":
            yield {"type": "response.output_text.delta", "item_id": "1", "delta": word}
        else:
            choice = {"index": 0, "delta": {"role": "assistant", "content": word}}
            yield {**CHUNK, "choices": [choice]}
    if task == "agent/v1/responses":
        yield {"type": "response.completed", "response": whole(task)}
    elif task == "llm/v1/chat":
        yield {**CHUNK, "choices": [], "usage": USAGE}
