"""What MLflow's ``predict_stream`` adds to the engine's own stream, measured side by side.

    .venv/bin/python -m bench.predict_stream [--rounds N] [--tokens N]

Starts the engine once (the settings' own, or ENGINE_URL), then asks for the same greedy answer in
turn: from the engine directly (requests, raw lines), and through a logged ChatAgent as MLflow calls
it. Prints the median time to the first chunk and per answer, and the ratio of the two.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import requests

from app.settings import Settings
from model_wrapper.backend import backend_for
from model_wrapper.interfaces.chat_agent import SGLangChatAgent

MESSAGES = [{"role": "user", "content": "Write a long story about a lighthouse."}]


def timed(chunks: Iterator[object]) -> tuple[float, float, int]:
    """Seconds to the first chunk, seconds to the last, number of chunks."""
    started = time.perf_counter()
    first = 0.0
    count = 0
    for _ in chunks:
        count += 1
        first = first or time.perf_counter() - started
    return first, time.perf_counter() - started, count


def direct(url: str, model: str, tokens: int) -> Iterator[bytes]:
    """The engine's own stream."""
    body = {
        "model": model,
        "messages": MESSAGES,
        "stream": True,
        "temperature": 0,
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    with requests.post(f"{url}/v1/chat/completions", json=body, stream=True, timeout=600) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith(b"data: {"):
                yield line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=100)
    options = parser.parse_args()

    agent = SGLangChatAgent()
    agent.load_context(SimpleNamespace(artifacts={}, model_config={}))
    backend = backend_for(Settings())
    backend.wait_until_ready()
    url, model = backend.engine.url, backend.engine.info.models[0]
    inputs = {"temperature": 0.0, "max_tokens": options.tokens, "ignore_eos": True}
    ways: dict[str, Callable[[], Iterator[object]]] = {
        "engine": lambda: direct(url, model, options.tokens),
        "predict_stream": lambda: agent.predict_stream(
            {"messages": MESSAGES, "custom_inputs": inputs}
        ),
    }
    results: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        for name, ask in ways.items():
            result = timed(ask())
            if number:  # the first round warms the prefix cache for both
                results[name].append(result)

    medians = {
        name: [statistics.median(values) for values in zip(*rows, strict=True)]
        for name, rows in results.items()
    }
    for name, (first, total, chunks) in medians.items():
        print(f"{name:15} first {1000 * first:7.1f} ms  whole {total:6.3f} s  {chunks:.0f} chunks")
    ratio = medians["predict_stream"][1] / medians["engine"][1]
    print(json.dumps({"whole_ratio": round(ratio, 4), "rounds": options.rounds}))
    agent.shutdown()


if __name__ == "__main__":
    main()
