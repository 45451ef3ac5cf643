"""A folder outside the repository in which models are logged, loaded and served."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

import psutil

from app.settings import Settings

ROOT = Path(__file__).parents[2]
ENGINE_PYTHON = ROOT / ".venv-engine" / "bin" / "python"
PATIENCE = 600.0
_MARK = "SANDBOX_OF_THE_TEST"

Found = TypeVar("Found")


class Sandbox:
    """Its own tracking store, temporary folder (and so its own shared engine) and processes.

    Nothing that was started in it outlives the ``with`` statement.
    """

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self.folder = folder
        self.python = python
        self._mark = uuid4().hex
        self._sessions: set[int] = set()
        self._children: list[subprocess.Popen[str]] = []
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        names = {name.upper() for name in Settings.model_fields}
        names |= {"ENGINE_START", "PYTHONPATH", "MLFLOW_TRACKING_URI"}
        self.environment = {key: value for key, value in os.environ.items() if key not in names}
        self.environment |= {
            _MARK: self._mark,
            # MLflow calls uvicorn by name, as one who has activated the environment.
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "TMPDIR": str(temporary),
            "ENGINE_PYTHON": str(ENGINE_PYTHON),
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
            # No telemetry, no look for a git repository.
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "GIT_PYTHON_REFRESH": "quiet",
        }

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for child in self._children:
            child.wait(60)

    def start(self, *arguments: str, output: Any = None, **options: Any) -> subprocess.Popen[str]:
        """A Python program: the arguments after ``python``."""
        environment = self.environment | options.pop("environment", {})
        child = subprocess.Popen(
            [str(self.python), *arguments],
            **{"cwd": self.folder, "env": environment, "text": True, "stderr": output} | options,
        )
        self._children.append(child)
        return child

    def wrapper(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """``python -m model_wrapper …``, to its end."""
        return subprocess.run(
            [str(self.python), "-m", "model_wrapper", *arguments],
            cwd=self.folder,
            env=self.environment | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def log(self, *arguments: str, **environment: str) -> dict[str, Any]:
        """Log a model; what ``--json`` says."""
        done = self.wrapper("log", "--json", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def processes(self) -> list[psutil.Process]:
        """All that came of what was started here, as far as it is alive."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def engines(self) -> list[psutil.Process]:
        """The first process of each engine."""
        return [process for process in self.processes() if _is_engine(process)]

    def engine_url(self) -> str:
        """Where the one engine listens."""
        (engine,) = self.engines()
        arguments = engine.cmdline()
        return f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}"

    def _owns(self, process: psutil.Process) -> bool:
        # SGLang's workers overwrite their environment; they share a session with a marked one.
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            session = os.getsid(process.pid)
            if process.environ().get(_MARK) == self._mark:
                if session != os.getsid(0):
                    self._sessions.add(session)
                return True
            return session in self._sessions
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            return False


def _is_engine(process: psutil.Process) -> bool:
    try:
        arguments = process.cmdline()
        return "sglang.launch_server" in arguments and os.getsid(process.pid) == process.pid
    except (psutil.NoSuchProcess, OSError):
        return False


def wait_until(look: Callable[[], Found], what: str, within: float = PATIENCE) -> Found:
    """What ``look`` returns once that is true."""
    deadline = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < deadline, f"no {what} in {within:.0f} s"
        time.sleep(0.1)
    return found


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
