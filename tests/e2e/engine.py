"""What the engine behind the gateway says about itself."""

from __future__ import annotations

import re

import requests

from tests.process.server import ServerProcess


class RealEngine:
    """SGLang, asked past the gateway. Only tests do that: it listens on the loopback interface."""

    def __init__(self, server: ServerProcess) -> None:
        arguments = server.engine().cmdline()
        self.url = f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}"
        self.arguments = arguments

    def metric(self, name: str) -> float:
        """Sum of a Prometheus metric over its labels; 0 when it has not been counted yet."""
        text = requests.get(f"{self.url}/metrics", timeout=10).text
        values = re.findall(rf"^sglang:{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, values))

    @property
    def running(self) -> float:
        """Requests that it works on, or that wait."""
        return self.metric("num_running_reqs") + self.metric("num_queue_reqs")

    @property
    def aborted(self) -> float:
        """Requests that it has given up so far."""
        return self.metric("num_aborted_requests_total")
