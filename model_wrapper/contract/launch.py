"""Runs the suite for a logged model: outside the repository, with the model's own packages."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parent
ROOT = SUITE.parent.parent
# The model is loaded from a folder that breaks careless quoting and decoding.
_FOLDER = "モデル の 写し"
_END_WITHIN = 30


class EnvironmentFailed(Exception):
    """The model's environment can't be built; says why in one line."""


@dataclass(frozen=True)
class Workplace:
    """The folders of one validation."""

    root: Path

    @property
    def model(self) -> Path:
        """The model that is loaded."""
        return self.root / _FOLDER / "model"

    @property
    def scratch(self) -> Path:
        """``TMPDIR`` of all processes. Short: sockets in it have a limit of 107 characters."""
        return self.root / "t"

    @property
    def log(self) -> Path:
        """What the model and its engine printed."""
        return self.root / "validate.log"

    @property
    def suite(self) -> Path:
        """The folder that the suite's package lies in."""
        return self.root / "suite"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all processes: the caller's, but nothing of the repository."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # mlflow looks for uv on PATH; it is beside our own interpreter.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return inherited | {
            "PATH": path,
            "TMPDIR": str(self.scratch),
            "MLFLOW_ENV_ROOT": str(self.root / "envs"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.root}/mlflow.db",
            # At the first request: loading must not need an engine.
            "ENGINE_START": "request",
        }


def prepare(model: Path, root: Path) -> Workplace:
    """Lay the folders out. Weights are linked, for there may be many gigabytes of them.

    Args:
        model: the logged model's folder.
        root: an empty folder.
    """
    place = Workplace(root)
    place.scratch.mkdir()
    shutil.copytree(SUITE, place.suite / SUITE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in model.rglob("*"):
        target = place.model / file.relative_to(model)
        if file.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.relative_to(model).parts[0] == "artifacts":
            link(file.resolve(), target)
        else:
            shutil.copyfile(file, target)
    return place


def link(file: Path, target: Path) -> None:
    """Another name for a file; on another disk a symbolic link, which not all of MLflow takes."""
    try:
        target.hardlink_to(file)
    except OSError:
        target.symlink_to(file)


def build_environment(place: Workplace) -> Path:
    """Let MLflow build the model's environment with uv; return its interpreter.

    Raises:
        EnvironmentFailed: the requirements can't be installed.
    """
    command = [sys.executable, "-m", "mlflow", "models", "prepare-env"]
    command += ["--model-uri", str(place.model), "--env-manager", "uv"]
    with place.log.open("ab") as output:
        done = subprocess.run(
            command,
            cwd=place.root,
            env=place.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    pythons = sorted(place.root.glob("envs/*/bin/python"))
    if done.returncode != 0 or not pythons:
        lines = place.log.read_text("utf-8", "replace").splitlines()
        errors = [line.strip() for line in lines if line.strip()] or ["no output"]
        raise EnvironmentFailed(errors[-1][:300])
    return pythons[0]


def run_suite(
    place: Workplace, python: Path, env_manager: str, *, http: bool
) -> Iterator[dict[str, Any]]:
    """Run it; yield its events as they come.

    Args:
        place: made by ``prepare``.
        python: interpreter of the model's environment.
        env_manager: for ``mlflow.models.predict``.
        http: whether to check ``mlflow models serve`` as well.
    """
    environment = place.environment
    if python == Path(sys.executable):
        # The current environments are wanted, and the engine's is one of them.
        engine = ROOT / ".venv-engine" / "bin" / "python"
        if engine.exists():
            environment.setdefault("ENGINE_PYTHON", str(engine))
    command = [str(python), "-m", SUITE.name, str(place.model), str(place.scratch)]
    command += ["--env-manager", env_manager, *(["--http"] if http else [])]
    with place.log.open("ab") as output, _running(command, place, environment, output) as process:
        for line in process.stdout or ():
            yield json.loads(line)
    if process.returncode != 0:
        lines = place.log.read_text("utf-8", "replace").strip().splitlines() or ["no output"]
        yield {
            "check": "the validation itself",
            "status": "failed",
            "seconds": 0.0,
            "reason": f"ended with status {process.returncode}: {lines[-1][:300]}",
            "fix": "",
        }


@contextmanager
def _running(
    command: list[str], place: Workplace, environment: dict[str, str], log: Any
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        cwd=place.suite,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.wait()
    finally:
        if process.poll() is None:
            # We were interrupted.
            process.terminate()
            try:
                process.wait(_END_WITHIN)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
