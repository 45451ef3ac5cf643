"""Where the seconds between ``python -m app serve`` and the first token go."""

from __future__ import annotations

import time
from typing import Any

import requests

from tests.gpu.timeline import Timeline
from tests.process.server import ServerProcess

# What ends each step, as our log or SGLang's says it.
STEPS = {
    "gateway listens": r"listening on http",
    "model found, host looked at": r"engine loading:",
    "engine imported": r"engine \| .*server_args=",
    "scheduler imported": r"engine \| .*Init torch distributed begin",
    "device ready": r"engine \| .*Load weight begin",
    "weights loaded": r"engine \| .*Load weight end",
    "KV cache allocated": r"engine \| .*(KV Cache is allocated|max_total_num_tokens=)",
    "graphs captured, engine answers": r"engine warming:",
    "warmed up": r"engine ready:",
}
GRAPHS = r"(?i)engine \| .*capture.*(end|elapsed)"


def measure_start(server: ServerProcess, timeline: Timeline) -> dict[str, Any]:
    """Seconds of each step, and of the first answer that a user gets."""
    asked = time.monotonic()
    body = {
        "messages": [{"role": "user", "content": "Speak."}],
        "custom_inputs": {"max_tokens": 16, "temperature": 0.7, "top_p": 0.9},
        "stream": True,
    }
    with requests.post(f"{server.url}/invocations", json=body, stream=True, timeout=600) as answer:
        assert answer.status_code == 200, answer.text
        events = (line for line in answer.iter_lines() if line)
        next(events)
        first_token = time.monotonic() - asked
        assert list(events)[-1] == b"data: [DONE]"
    steps = {}
    before = 0.0
    for name, pattern in STEPS.items():
        at = timeline.first(pattern)
        if at is not None and at >= before:
            steps[name] = round(at - before, 2)
            before = at
    graphs = timeline.matches(GRAPHS)
    return {
        "steps_s": steps,
        "ready_s": round(before, 2),
        "first_token_after_ready_s": round(first_token, 3),
        "cuda_graphs": "on" if graphs else "no line about them",
        "graph_lines": [line.partition("| ")[2][:300] for line in graphs],
        "host_line": next(iter(timeline.matches(r"host: ")), "")[:600],
    }
