"""Questions to a server that has a fake engine behind it."""

from __future__ import annotations

import json
import time
from typing import Any

import requests

from tests.process.server import ServerProcess


def invocation(words: int, *, stream: bool = False) -> dict[str, Any]:
    """A request that is answered with so many words, by the fake engine and by a real one."""
    return {
        "messages": [{"role": "user", "content": "Speak."}],
        "custom_inputs": {"max_tokens": words, "ignore_eos": True},
        "stream": stream,
    }


def readiness(server: ServerProcess) -> requests.Response:
    return requests.get(f"{server.url}/health/ready", timeout=10)


def counted(url: str, name: str) -> float:
    """A number without labels in the ``/metrics`` of a server."""
    text = requests.get(f"{url}/metrics", timeout=10).text
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def wait_until_ready(server: ServerProcess) -> str:
    """The address of a server that is ready."""
    return server.wait_for_text(r"Ready: (http://\S+)").group(1)


class OpenStream:
    """A streamed answer that has begun."""

    def __init__(self, url: str, words: int, headers: dict[str, str] | None = None) -> None:
        self.answer = requests.post(
            f"{url}/invocations",
            json=invocation(words, stream=True),
            headers=headers,
            stream=True,
            timeout=60,
        )
        self._lines = self.answer.iter_lines()
        self.first = self._next_event()

    def rest(self) -> list[Any]:
        """Every later event, with ``[DONE]`` as the text that it is."""
        events = []
        while (event := self._next_event()) is not None:
            events.append(event)
        return events

    def _next_event(self) -> Any:
        for line in self._lines:
            if line:
                data = line.removeprefix(b"data: ").decode()
                return data if data == "[DONE]" else json.loads(data)
        return None


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
