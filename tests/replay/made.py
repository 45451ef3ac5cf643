"""Answers that were not recorded, in the shape in which this engine sends them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.replay.recordings import Recording

USAGE = {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1}


def made_chunk(finish_reason: str | None = None, usage: Any = None, **delta: Any) -> Any:
    """A chunk of a stream: every key is there, most of them null."""
    nothing = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
    choice = {"index": 0, "delta": nothing | delta, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}


def made_answer(body: Any, status: int = 200, content_type: str = "application/json") -> Recording:
    """A plain answer that was not recorded; ``body`` is text, bytes or an object for JSON."""
    if not isinstance(body, (str, bytes)):
        body = json.dumps(body, ensure_ascii=False)
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} Made\r\ncontent-type: {content_type}\r\n"
    return Recording("made_answer", f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


def made_stream(events: Iterable[Any], done: bool = True) -> Recording:
    """A stream that was not recorded: one HTTP chunk for each event, as the engine sends it."""
    texts = [json.dumps(event, ensure_ascii=False) for event in events] + ["[DONE]"] * done
    wire = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    wire += b"Transfer-Encoding: chunked\r\n\r\n"
    for text in texts:
        data = f"data: {text}\n\n".encode()
        wire += f"{len(data):x}\r\n".encode() + data + b"\r\n"
    return Recording("made_stream", wire + b"0\r\n\r\n")
