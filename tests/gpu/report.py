"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.faults.__main__ import HEADING, row
from tests.faults.scenarios import OF_SGLANG, Seen

_COLUMNS = ("tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms")


def markdown(found: dict[str, Any]) -> str:
    """All parts that there are results of."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for part, results in found.items():
        yield f"\n## {part}\n"
        if isinstance(results, dict) and "failed" in results:
            yield f"not measured: {results['failed']}"
        elif part == "speed":
            yield from _speed(results)
        elif part == "faults":
            yield HEADING + "".join(_faults(results))
        else:
            yield from (f"* {name}: {value}" for name, value in results.items())


def _speed(results: dict[str, Any]) -> Iterator[str]:
    yield (
        "| streams | asked | tokens/s | of the engine's | "
        + " | ".join(name.replace("_", " ") for name in _COLUMNS[1:])
        + " | gateway's cores |"
    )
    yield "|---" * (len(_COLUMNS) + 4) + "|"
    for streams, targets in results.items():
        direct = targets["engine"]
        for name, one in targets.items():
            share = f"{one['tokens_per_s'] / direct['tokens_per_s']:.1%}"
            cells = [streams, name, one["tokens_per_s"], share]
            cells += [one[column] for column in _COLUMNS[1:]]
            yield f"| {' | '.join(map(str, cells))} | {one['gateway_cores']:.2f} |"


def _faults(results: list[dict[str, Any]]) -> Iterator[str]:
    by_name = {fault.name: fault for fault in OF_SGLANG}
    for result in results:
        seen = {key: value for key, value in result.items() if key not in ("fault", "survives")}
        yield row(by_name[result["fault"]], Seen(**seen))
