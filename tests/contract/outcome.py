"""What a caller of POST /invocations got, read as strictly as the strictest known client does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.mlflow_versions import Candidate, chunks, response


@dataclass(frozen=True)
class Outcome:
    """An answer of the gateway: a ChatAgentResponse, a stream of chunks, or an error."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def streamed(self) -> bool:
        """Whether it came as server-sent events."""
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def events(self) -> list[Any]:
        """The events before ``[DONE]``; raises on all that mlflow.deployments' client refuses."""
        assert self.body.isascii(), "JSON in a stream must be ASCII"
        assert self.body.endswith(b"data: [DONE]\n\n"), self.body[-200:]
        lines = [line for line in self.body.decode().split("\n") if line]
        for line in lines:
            assert line.startswith("data: "), f"no data line: {line[:80]!r}"
        assert lines.pop() == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    @property
    def chunks(self) -> list[Any]:
        """The ChatAgentChunks of a stream, without a final error."""
        return [event for event in self.events if "error" not in event]

    @property
    def json(self) -> Any:
        """The body of a plain answer or an error."""
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The ``{"error_code", "message"}`` of a refused request or of a stream that broke."""
        if not self.streamed:
            return self.json if "error_code" in self.json else None
        last = self.events[-1] if self.events else {}
        return last.get("error")

    @property
    def content(self) -> str:
        """The text of the answer."""
        if self.streamed:
            return "".join(chunk["delta"]["content"] for chunk in self.chunks)
        (message,) = self.json["messages"]
        return str(message["content"])

    @property
    def closing(self) -> Any:
        """Where finish_reason, usage and custom_outputs are: the response or the last chunk."""
        return self.chunks[-1] if self.streamed else self.json

    @property
    def tool_calls(self) -> list[Any]:
        """The calls of the answer."""
        message = self.closing["delta"] if self.streamed else self.closing["messages"][0]
        return list(message.get("tool_calls") or [])

    @property
    def reasoning(self) -> str:
        """The model's thought, which is not content."""
        return str(self.closing.get("custom_outputs", {}).get("reasoning_content", ""))

    @property
    def summary(self) -> dict[str, Any]:
        """What must be the same in both modes; ids and cache hits belong to one request each."""
        usage = self.closing.get("usage", {})
        return {
            "content": self.content,
            "reasoning": self.reasoning,
            "tool_calls": [call["function"] for call in self.tool_calls],
            "finish_reason": self.closing["finish_reason"],
            "usage": {key: count for key, count in usage.items() if key.endswith("_tokens")},
        }

    def candidates(self, source: str) -> list[Candidate]:
        """The objects in it that MLflow's types must accept."""
        return chunks(self.chunks, source) if self.streamed else [response(self.json, source)]


async def invoke(client: aiohttp.ClientSession, gateway: str, body: Any) -> Outcome:
    """POST a ChatAgent request."""
    async with client.post(gateway + "/invocations", json=body) as answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Outcome(answer.status, headers, await answer.read())
