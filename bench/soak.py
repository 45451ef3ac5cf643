"""Whether the gateway's memory grows: many streams for many minutes, and the slope of its RSS.

    .venv/bin/python -m bench.soak [--minutes 10] [--streams 64]

Runs ``python -m app serve`` before a scripted engine. So many clients are always busy: most read a
stream to its end, some leave in the middle, some ask for a plain answer, some ask for nonsense. RSS
is looked at every second; the slope is that of a straight line through the last four fifths of the
time (least squares), when pools and caches have their size.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp
import psutil

from tests.process.server import ServerProcess

WORDS = 100
MIB = 2**20


async def client(
    url: str, session: aiohttp.ClientSession, until: float, ends: Counter[str]
) -> None:
    """One client: one request after another, of mixed kinds."""
    dice = random.Random()
    while time.monotonic() < until:
        kind = dice.choices(["stream", "left", "plain", "refused"], [14, 3, 2, 1])[0]
        body = {
            "messages": [{"role": "user", "content": "x" * dice.randrange(1, 4000)}],
            "custom_inputs": {"max_tokens": -1 if kind == "refused" else WORDS},
            "stream": kind in ("stream", "left"),
        }
        async with session.post(f"{url}/invocations", json=body) as answer:
            if kind == "left":
                await answer.content.readany()
            else:
                content = await answer.read()
                good = {
                    "stream": content.endswith(b"data: [DONE]\n\n") and b'"error"' not in content,
                    "plain": answer.status == 200,
                    "refused": answer.status == 400,
                }
                kind = kind if good[kind] else f"bad {kind}: {answer.status}"
        ends[kind] += 1


async def load(
    url: str, streams: int, minutes: float, gateway: psutil.Process
) -> dict[str, object]:
    """Keep the server busy, and watch it."""
    began = time.monotonic()
    until = began + 60 * minutes
    ends: Counter[str] = Counter()
    seen: list[tuple[float, float]] = []
    files = gateway.num_fds()
    limits = aiohttp.ClientTimeout(total=120)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
        clients = [asyncio.create_task(client(url, session, until, ends)) for _ in range(streams)]
        while time.monotonic() < until:
            await asyncio.sleep(1)
            seen.append((time.monotonic() - began, gateway.memory_info().rss / MIB))
            if len(seen) % 60 == 0:
                print(f"{seen[-1][0]:4.0f} s  {seen[-1][1]:7.2f} MiB  {dict(ends)}", flush=True)
        await asyncio.gather(*clients)
    late = [point for point in seen if point[0] > seen[-1][0] / 5]
    slope = statistics.linear_regression(*zip(*late, strict=True)).slope
    return {
        "streams": streams,
        "minutes": minutes,
        "requests": dict(ends),
        "rss_mib": {"first": round(late[0][1], 2), "last": round(late[-1][1], 2)},
        "rss_slope_mib_per_hour": round(3600 * slope, 2),
        "open_files": {"before": files, "after": gateway.num_fds()},
    }


def main() -> None:
    """Start both, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--streams", type=int, default=64)
    options = parser.parse_args()
    engine = subprocess.Popen(
        [sys.executable, "-m", "bench.scripted_engine"], stdout=subprocess.PIPE, text=True
    )
    assert engine.stdout is not None
    try:
        url = f"http://127.0.0.1:{engine.stdout.readline().strip()}"
        with (
            tempfile.TemporaryDirectory() as folder,
            ServerProcess(Path(folder) / "log", ENGINE_URL=url) as server,
        ):
            server.wait_for_text("Ready: http")
            found = asyncio.run(
                load(server.url, options.streams, options.minutes, psutil.Process(server.pid))
            )
    finally:
        engine.kill()
        engine.wait()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
