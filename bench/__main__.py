"""What the gateway costs, measured beside its peers, before the same scripted engine, in one run.

    .venv/bin/python -m bench [--peers ours,naive] [--scenarios plain32,burst64] [--rounds 3]
                              [--quick] [--out FOLDER] [--publish]
    .venv/bin/python -m bench --report FOLDER [--publish]     # of what was measured before

Every round measures each scenario, and in it each peer in turn, so that what changes on the machine
changes for all. Writes results.json, report.md and report.png.
"""

import argparse
import json
import platform
import resource
import secrets
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from bench.environments import ROOT, CannotMeasureError, build_rig, folder
from bench.figures import QUIET, Figures, Row
from bench.measure import Cores, Stand
from bench.peers.catalogue import PEERS, Peer
from bench.picture import draw
from bench.processes import RunningServer, ScriptedEngine
from bench.report import fill, markdown
from bench.scenarios import SCENARIOS, Scenario

_DOCUMENT = ROOT / "docs" / "performance.md"
_PICTURE = "performance.png"


def start(
    peers: list[Peer],
    engine: ScriptedEngine,
    key: str,
    core: int,
    running: dict[str, RunningServer],
) -> dict[str, str]:
    """Start the servers of the peers, into ``running``.

    Returns:
        Why peers can't be measured, by their names.
    """
    failed: dict[str, str] = {}
    for peer in peers:
        if peer.server is None:
            continue
        try:
            running[peer.name] = RunningServer(peer.name, peer.server, engine.url, key, core)
            running[peer.name].wait_until_it_answers(peer)
            print(f"{peer.name} answers", flush=True)
        except CannotMeasureError as error:
            failed[peer.name] = str(error)
            print(f"{peer.name}: not measured: {error}", flush=True)
            if peer.name in running:
                running.pop(peer.name).stop()
    return failed


def measure_all(
    stand: Stand,
    peers: list[Peer],
    running: dict[str, RunningServer],
    scenarios: list[Scenario],
    rounds: int,
    results: dict[str, Any],
) -> None:
    """All rounds, a row for each measurement. A disturbed one is made a second time."""
    rows: list[Row] = results["rows"]
    failed: dict[str, str] = results["not_measured"]
    for number in range(rounds):
        for place, scenario in enumerate(scenarios):
            turn = (number * 5 + place) % len(peers)  # nobody is always the first
            for peer in peers[turn:] + peers[:turn]:
                if scenario.stream and not peer.streams:
                    continue
                server = running.get(peer.name)  # none for the engine itself
                for _ in range(2):
                    try:
                        row = stand.measure(peer, server, scenario)
                    except CannotMeasureError as error:
                        failed[f"{peer.name} in {scenario.name}"] = str(error)
                        print(f"{scenario.name} {peer.name}: {error}", flush=True)
                        break
                    rows.append(row | {"round": number})
                    print(_line(row), flush=True)
                    if row["disturbance"] <= QUIET or not stand.patience:
                        break


def _line(row: Row) -> str:
    return (
        f"{row['scenario']:9} {row['peer']:20} {row['requests_per_s']:9.1f} requests/s "
        f"{row['tokens_per_s']:9.0f} chunks/s  errors {row['errors']}  "
        f"server {row['server_share']:.2f}  rig {row['rig_share']:.2f}  "
        f"others {row['disturbance']:.2f}  {row['last_error'][:80]}"
    )


def machine() -> str:
    """The machine in words."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    name = models[0] if models else platform.machine()
    python = platform.python_version()
    return f"{len(models)} cores ({name}), Linux {platform.release()}, Python {python}"


def run(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Measure, and save after each step what there is."""
    wanted = {"direct", *options.peers} if options.peers else {peer.name for peer in PEERS}
    peers = [peer for peer in PEERS if peer.name in wanted]
    scenarios = [
        scenario.quick() if options.quick else scenario
        for scenario in SCENARIOS
        if not options.scenarios or scenario.name in options.scenarios
    ]
    cores, key = Cores.of_this_machine(), f"sk-{secrets.token_urlsafe(32)}"
    results: dict[str, Any] = {
        "when": time.strftime("%Y-%m-%d %H:%M %Z"),
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "machine": machine(),
        "rows": [],
        "not_measured": {},
    }
    rig = build_rig()
    shutil.rmtree(folder("run"))  # what servers kept there of an older run, databases for example
    engine = ScriptedEngine(rig, cores.engine)
    running: dict[str, RunningServer] = {}
    try:
        engine.behave()
        results["not_measured"] = start(peers, engine, key, cores.server, running)
        peers = [peer for peer in peers if peer.server is None or peer.name in running]
        stand = Stand(rig, cores, engine, key, 0.0 if options.quick else 25.0)
        measure_all(stand, peers, running, scenarios, options.rounds, results)
    finally:
        for server in running.values():
            server.stop()
        engine.stop()
        (out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def _options() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=names, help="by default all; direct is always among them")
    parser.add_argument("--scenarios", type=names, help="by default all")
    parser.add_argument("--rounds", type=int, help="3; with --quick 1")
    parser.add_argument("--quick", action="store_true", help="a second each, to see that it works")
    parser.add_argument("--out", type=Path, help="by default .bench/results")
    parser.add_argument("--report", type=Path, help="only report what is in this folder")
    parser.add_argument("--publish", action="store_true", help=f"into {_DOCUMENT.name} as well")
    options = parser.parse_args()
    for given, known in ((options.peers, PEERS), (options.scenarios, SCENARIOS)):
        unknown = set(given or ()) - {one.name for one in known}
        if unknown:
            parser.error(
                f"unknown: {', '.join(sorted(unknown))}; there are "
                f"{', '.join(one.name for one in known)}"
            )
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # so that all processes are ended


def main() -> None:
    """Measure and report."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    # A gateway has two connections for each stream; servers inherit the limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    out: Path = options.report or options.out or folder("results")
    out.mkdir(parents=True, exist_ok=True)
    try:
        results = (
            json.loads((out / "results.json").read_text(encoding="utf-8"))
            if options.report
            else run(options, out)
        )
    except CannotMeasureError as error:
        sys.exit(f"Nothing can be measured: {error}")
    report = markdown(results, "report.png")
    (out / "report.md").write_text(report, encoding="utf-8")
    draw(Figures(results["rows"]), out / "report.png")
    print(f"\n{report}\nSaved in {out}")
    if options.publish:
        text = _DOCUMENT.read_text(encoding="utf-8")
        _DOCUMENT.write_text(fill(text, markdown(results, _PICTURE)), encoding="utf-8")
        (_DOCUMENT.parent / _PICTURE).write_bytes((out / "report.png").read_bytes())


if __name__ == "__main__":
    main()
