"""The gateway against the engine without it: the same load on both, in turn, in one run."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import psutil
import requests

from tests.e2e.engine import RealEngine
from tests.gpu.load import Heard, Load, Target
from tests.process.server import ServerProcess

# Requests one after another where a wave is short.
_REPEATS = {1: 4}


def compare(
    server: ServerProcess, engine: RealEngine, options: argparse.Namespace
) -> dict[str, Any]:
    """Figures by streams at once and by target.

    Each target has its turn in each round; the order is turned round each time.
    """
    model = requests.get(f"{server.url}/v1/models", timeout=10).json()["data"][0]["id"]
    targets = [
        Target("engine", f"{engine.url}/v1/chat/completions", model),
        Target("gateway /v1", f"{server.url}/v1/chat/completions", model),
        Target("gateway /invocations", f"{server.url}/invocations", model),
    ]
    gateway = psutil.Process(server.pid)
    found: dict[str, Any] = {}
    with Load() as load:
        for streams in options.streams:
            repeats = _REPEATS.get(streams, 1)
            waves: dict[str, list[dict[str, Any]]] = {target.name: [] for target in targets}
            for round_ in range(-1, options.rounds):
                for target in targets if round_ % 2 else targets[::-1]:
                    used = _cpu_seconds(gateway)
                    seconds, heard = load.wave(
                        target, streams=streams, tokens=options.tokens, repeats=repeats
                    )
                    used = _cpu_seconds(gateway) - used
                    if round_ >= 0:  # the first one only warms up
                        wave = figures(seconds, heard) | {"gateway_cores": round(used / seconds, 3)}
                        waves[target.name].append(wave)
                    time.sleep(0.1)
            found[str(streams)] = {name: _medians(some) for name, some in waves.items()}
            print(streams, found[str(streams)], flush=True)
    return found


def figures(seconds: float, heard: list[Heard]) -> dict[str, float]:
    """Of one wave. Raises AssertionError when a stream was not whole."""
    problems = [one.problem for one in heard if one.problem]
    assert not problems, f"{len(problems)} of {len(heard)} streams failed: {problems[0]}"
    firsts = [one.first for one in heard]
    gaps = [gap for one in heard for gap in one.gaps]
    return {
        "tokens_per_s": round(sum(one.tokens for one in heard) / seconds, 1),
        "ttft_p50_ms": _ms(percentile(firsts, 50)),
        "ttft_p99_ms": _ms(percentile(firsts, 99)),
        "itl_p50_ms": _ms(percentile(gaps, 50)),
        "itl_p99_ms": _ms(percentile(gaps, 99)),
        "itl_mean_ms": _ms(statistics.fmean(gaps)),
    }


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest value of the list."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(len(ordered) * percent / 100))]


def _medians(waves: list[dict[str, float]]) -> dict[str, float]:
    medians = {key: statistics.median(wave[key] for wave in waves) for key in waves[0]}
    speeds = [wave["tokens_per_s"] for wave in waves]
    return medians | {"tokens_per_s_lowest": min(speeds), "tokens_per_s_highest": max(speeds)}


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
