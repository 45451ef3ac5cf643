"""``POST /invocations``, read as strictly as the strictest of its clients."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import requests

from tests.mlflow_versions import Candidate, chunks, response


@dataclass(frozen=True)
class Reply:
    """An answer in a form that both modes share."""

    content: str
    finish_reason: str
    usage: dict[str, int]
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    custom_outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Usage but for the cache, whose state differs from one request to the next."""
        return {key: value for key, value in self.usage.items() if key.endswith("_tokens")}

    @property
    def functions(self) -> list[dict[str, Any]]:
        """What was called; the ids are new each time."""
        return [call["function"] for call in self.tool_calls]

    @property
    def comparable(self) -> tuple[Any, ...]:
        """What a streamed and a plain answer to the same question have in common."""
        return (self.content, self.finish_reason, self.counts, self.functions, self.custom_outputs)


class Invocations:
    """A client of the route that remembers every object that it was sent."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/invocations"
        self.seen: list[Candidate] = []
        self._session = requests.Session()

    def __enter__(self) -> Invocations:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def post(self, body: Any, **options: Any) -> requests.Response:
        """The raw answer to any body."""
        return self._session.post(self.url, json=body, timeout=100, **options)

    def ask(self, request: dict[str, Any]) -> Reply:
        """The answer, in the mode that the request names."""
        answer = self.post(request)
        assert answer.status_code == 200, answer.text
        return self.read_stream(answer) if request.get("stream") else self.read_plain(answer)

    def read_plain(self, answer: requests.Response) -> Reply:
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.content.isascii()
        body = answer.json()
        self.seen.append(response(body, str(answer.request.body)[:200]))
        assert body["id"]
        (message,) = body["messages"]
        return _reply([message], body)

    def read_stream(self, answer: requests.Response) -> Reply:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = parse_events(answer.content)
        self.seen += chunks(events, str(answer.request.body)[:200])
        assert len({event["id"] for event in events}) == 1
        assert len({event["delta"]["id"] for event in events}) == 1
        assert {event["delta"]["role"] for event in events} == {"assistant"}
        *earlier, last = events
        for event in earlier:
            assert event.keys() == {"id", "delta"}, "only the last chunk closes the answer"
            assert event["delta"]["content"]
        return _reply([event["delta"] for event in events], last)


def parse_events(wire: bytes) -> list[Any]:
    """The objects of a whole stream, which must end with ``[DONE]`` and hold nothing but data."""
    assert wire.isascii()
    frames = wire.decode("ascii").split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    frames = [frame.lstrip("\n") for frame in frames[:-2]]
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def _reply(messages: list[dict[str, Any]], closing: dict[str, Any]) -> Reply:
    return Reply(
        content="".join(message["content"] for message in messages),
        finish_reason=closing["finish_reason"],
        usage=closing["usage"],
        tool_calls=[call for message in messages for call in message.get("tool_calls", [])],
        custom_outputs=closing.get("custom_outputs", {}),
    )
