"""Runs the parts in turn and writes down what they found: ``python -m tests.gpu --out FOLDER``."""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.settings import Settings
from tests.e2e.engine import RealEngine
from tests.faults.scenarios import OF_SGLANG, SETTINGS, watch
from tests.gpu.answers import compare_answers
from tests.gpu.departures import leave
from tests.gpu.machine import describe
from tests.gpu.model_folder import with_weights
from tests.gpu.report import markdown
from tests.gpu.speed import compare
from tests.gpu.start_up import measure_start
from tests.gpu.timeline import Timeline
from tests.process.server import ServerProcess

# In this order: the last of the faults ends the server.
PARTS = ("start", "answers", "departures", "speed", "faults")
START_WITHIN = 1800.0


def main() -> None:
    """Measure, part by part."""
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated")
    parser.add_argument("--streams", default="1,16,64,256", help="streams at once, comma-separated")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of each streamed answer")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    options = parser.parse_args()
    parts = options.parts.split(",")
    options.streams = [int(count) for count in options.streams.split(",")]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    settings = _given_settings() | SETTINGS
    settings["MODEL"] = with_weights(settings)
    notes = Notes(options.out, {"machine": describe(settings)})
    _measure([part for part in PARTS if part in parts], settings, options, notes)


class Notes:
    """What was found so far, on disk after each part: a run may be cut off."""

    def __init__(self, folder: Path, found: dict[str, Any]) -> None:
        self._folder = folder
        self.found = found

    def take(self, part: str, measure: Callable[[], Any]) -> None:
        """Run one part. A failure is a finding too, and the other parts go on."""
        print(f"== {part}", flush=True)
        try:
            self.found[part] = measure()
        except Exception as error:
            traceback.print_exc()
            self.found[part] = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        text = json.dumps(self.found, indent=1)
        (self._folder / "results.json").write_text(text + "\n", encoding="utf-8")
        (self._folder / "report.md").write_text(markdown(self.found), encoding="utf-8")
        print(json.dumps(self.found[part])[:3000], flush=True)


def _measure(
    parts: list[str], settings: dict[str, str], options: argparse.Namespace, notes: Notes
) -> None:
    log = options.out / "server.log"
    with Timeline(log) as timeline, ServerProcess(log, **settings) as server:
        server.wait_for_text(r"Ready: http", within=START_WITHIN)
        engine = RealEngine(server)
        measures: dict[str, Callable[[], Any]] = {
            "start": lambda: measure_start(server, timeline),
            "answers": lambda: compare_answers(server.url),
            "speed": lambda: compare(server, engine, options),
            "departures": lambda: leave(server.url, engine.url),
            "faults": lambda: [
                {"fault": fault.name, "survives": fault.survives, **vars(watch(server, fault))}
                for fault in OF_SGLANG
            ],
        }
        for part in parts:
            notes.take(part, measures[part])


def _given_settings() -> dict[str, str]:
    """The server's settings in our environment, which tests leave out on purpose."""
    names = (name.upper() for name in Settings.model_fields)
    return {name: os.environ[name] for name in names if os.environ.get(name)}


if __name__ == "__main__":
    main()
