"""The recorded exchanges of tests/data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "data" / "sglang-0.4.6.post5.jsonl"
CHAT = "/v1/chat/completions"

# Which servers of the recording ran with a reasoning parser (see the first line of the file).
REASONING_SERVERS = frozenset("BD")


@dataclass(frozen=True)
class Recording:
    """One exchange with an engine: what was asked, and the bytes that came back."""

    name: str
    response: bytes
    request: str = ""
    server: str = "A"
    path: str = CHAT
    end: str = "complete"
    reads: tuple[int, ...] = ()
    shortened: bool = False
    request_shortened: bool = False

    @property
    def id(self) -> str:
        """A name that is unique in the file: some exchanges were repeated on another server."""
        return f"{self.server}-{self.name}"

    @property
    def request_body(self) -> Any:
        """The request as an object, or None where it was no JSON."""
        try:
            return json.loads(self.request)
        except ValueError:
            return None

    @property
    def head(self) -> bytes:
        """Status line and headers with the blank line that ends them."""
        return self.response[: self.response.find(b"\r\n\r\n") + 4] if self.response else b""

    @property
    def status(self) -> int | None:
        """The HTTP status; None when the server never sent one."""
        return int(self.response.split(b" ", 2)[1]) if self.response else None

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream of events."""
        return b"text/event-stream" in self.head

    @property
    def body(self) -> bytes:
        """The body without chunk framing."""
        rest = self.response[len(self.head) :]
        if b"transfer-encoding: chunked" not in self.head.lower():
            return rest
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            body += rest[:length]
            rest = rest[length + 2 :]
        return body

    @property
    def answer(self) -> Any:
        """The JSON of a plain answer."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON of each event of a stream, without the final ``[DONE]``."""
        texts = (event.removeprefix("data: ") for event in self.body.decode().split("\n\n"))
        return [json.loads(text) for text in texts if text and text != "[DONE]"]

    @property
    def reasoning_parser(self) -> str | None:
        """The reasoning parser that the recorded server ran with."""
        return "qwen3" if self.server in REASONING_SERVERS else None


@cache
def recordings() -> tuple[Recording, ...]:
    """Everything that was recorded, in the order of the file."""
    # Not splitlines(): the answers may hold U+2028, which that takes for the end of a line.
    lines = RECORDED.read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    known = {"name", "server", "path", "end", "request", "shortened", "request_shortened"}
    found = []
    for line in map(json.loads, lines):
        found.append(
            Recording(
                response=line["response"].encode(),
                reads=tuple(line["reads"]),
                **{key: value for key, value in line.items() if key in known},
            )
        )
    return tuple(found)


def recording(name: str) -> Recording:
    """The recording called ``name``, or ``SERVER-name`` where several servers recorded it."""
    found = [each for each in recordings() if name in (each.id, each.name)]
    if not found:
        raise KeyError(f"nothing was recorded under the name {name!r}")
    return found[0]


def chat_recordings() -> list[Recording]:
    """Every exchange in which the chat endpoint answered, well or with an error."""
    return [
        each
        for each in recordings()
        if each.path == CHAT and each.response and each.request_body is not None
    ]


def pairs() -> list[tuple[Recording, Recording]]:
    """The plain and the streamed recording of one and the same request to one server."""
    chats = [each for each in chat_recordings() if each.end == "complete"]
    streams = {_question(each): each for each in chats if each.name.endswith("_stream")}
    plains = [each for each in chats if not each.name.endswith("_stream")]
    return [(each, streams[_question(each)]) for each in plains if _question(each) in streams]


def _question(exchange: Recording) -> tuple[str, str, str]:
    """What two exchanges must share to be the plain and the streamed form of one question."""
    body = {k: v for k, v in exchange.request_body.items() if k not in ("stream", "stream_options")}
    # The engine takes no notice of `strict`, which only one of the two JSON schema requests has.
    body.get("response_format", {}).get("json_schema", {}).pop("strict", None)
    topic = exchange.name.removesuffix("_plain").removesuffix("_stream")
    return exchange.server, topic, json.dumps(body, sort_keys=True)
