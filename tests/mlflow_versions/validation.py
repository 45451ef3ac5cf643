"""Sends objects to the interpreter of each MLflow version and collects what they complain of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("check.py")
OLDER = ("2.20.2", "2.22.5")


@dataclass(frozen=True)
class Candidate:
    """An object that a client of the server would validate, and where it came from."""

    kind: Literal["response", "chunk"]
    object: Any
    source: str = ""


@dataclass(frozen=True)
class Problem:
    """One object that one MLflow version refuses."""

    version: str
    candidate: Candidate
    message: str

    def __str__(self) -> str:
        shown = json.dumps(self.candidate.object, ensure_ascii=False)[:300]
        where = f"{self.candidate.kind} of {self.candidate.source or 'the test'}"
        return f"mlflow {self.version} refuses a {where}: {self.message} ... {shown}"


def response(answer: Any, source: str = "") -> Candidate:
    """A whole ChatAgentResponse."""
    return Candidate("response", answer, source)


def chunks(events: Iterable[Any], source: str = "") -> list[Candidate]:
    """The ChatAgentChunks of a stream."""
    return [Candidate("chunk", event, source) for event in events]


def interpreters() -> dict[str, Path]:
    """The Python of each MLflow version; raises when an environment has not been made."""
    found = {version: ROOT / f".venv-mlflow-{version}" / "bin" / "python" for version in OLDER}
    for version, python in found.items():
        if not python.exists():
            raise FileNotFoundError(f"{python} is missing; run: make .venv-mlflow-{version}")
    return found | {"newest": Path(sys.executable)}


def validate(candidates: Sequence[Candidate]) -> list[Problem]:
    """Every complaint of every version, in one run of each interpreter (a few seconds)."""
    if not candidates:
        raise ValueError("nothing to validate: the test did not collect any objects")
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda python: _run(python, candidates), interpreters().values())
        return [problem for problems in runs for problem in problems]


def _run(python: Path, candidates: Sequence[Candidate]) -> list[Problem]:
    lines = (json.dumps({"kind": c.kind, "object": c.object}) + "\n" for c in candidates)
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        input="".join(lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{python} could not validate:\n{done.stderr[-2000:]}")
    *verdicts, last = map(json.loads, done.stdout.splitlines())
    if len(verdicts) != len(candidates):
        raise RuntimeError(f"{python} judged {len(verdicts)} of {len(candidates)} objects")
    return [
        Problem(last["mlflow"], candidate, verdict)
        for candidate, verdict in zip(candidates, verdicts, strict=True)
        if verdict is not None
    ]
