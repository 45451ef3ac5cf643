"""The product as its users run it, ``python -m app serve``, watched from outside."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from uuid import uuid4

import psutil

from app.settings import Settings

ROOT = Path(__file__).parents[2]
# Long enough for a machine that does other things besides; nothing ever waits it out in vain.
PATIENCE = 60.0
_MARK = "SERVER_UNDER_TEST"

Found = TypeVar("Found")


class ServerProcess:
    """One run of the server. Use it in a ``with`` statement: nothing of it outlives that.

    Every process that it starts inherits a mark in its environment, by which even those are
    found that have lost their parents. SGLang's workers overwrite theirs when they name
    themselves; they are known by their session, which is that of a marked process.

    Args:
        output: file that gets what it prints.
        options: command line after ``serve``.
        settings: environment variables. Those of whoever runs the tests are left out.
    """

    def __init__(self, output: Path, *options: str, **settings: str) -> None:
        self.output = output
        self._mark = uuid4().hex
        names = {name.upper() for name in Settings.model_fields}
        inherited = {key: value for key, value in os.environ.items() if key not in names}
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve", *options],
                cwd=ROOT,
                env=inherited | {"PORT": "0", _MARK: self._mark} | settings,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                # A process group of its own, as a terminal gives one to each command.
                start_new_session=True,
            )
        self._sessions = {self._process.pid}

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    @property
    def url(self) -> str:
        """Where it listens, known long before it is ready."""
        return self.wait_for_text(r"listening on (http://\S+),").group(1)

    def wait_for_text(self, pattern: str, within: float = PATIENCE) -> re.Match[str]:
        """The first place in the output that matches; fails early when the server ends."""

        def look() -> re.Match[str] | None:
            ended = self._process.poll() is not None
            found = re.search(pattern, self.text)
            assert found or not ended, f"the server ended; it said:\n{self.text[-4000:]}"
            return found

        return self.wait_until(look, f"{pattern!r} in the output", within)

    def wait_until(
        self, look: Callable[[], Found | None], what: str, within: float = PATIENCE
    ) -> Found:
        """What ``look`` returns once that is true."""
        deadline = time.monotonic() + within
        while True:
            if found := look():
                return found
            assert time.monotonic() < deadline, f"no {what}; it said:\n{self.text[-4000:]}"
            time.sleep(0.05)

    def wait_for_end(self, within: float = PATIENCE) -> int:
        """Its exit status."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it runs on; it said:\n{self.text[-4000:]}") from None

    def send(self, number: signal.Signals) -> None:
        """A signal to the server alone, as ``kill`` and service managers send it."""
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """SIGINT to its whole process group, as a terminal sends it."""
        os.killpg(self._process.pid, signal.SIGINT)

    def processes(self) -> list[psutil.Process]:
        """The server and whatever came of it, as far as it is alive."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def leaders(self) -> list[psutil.Process]:
        """Its processes with a session of their own: itself, and the engine's first one."""
        return [process for process in self.processes() if process.pid in self._sessions]

    def engine(self) -> psutil.Process:
        """The engine's first process: the one with a session of its own."""

        def look() -> psutil.Process | None:
            return next((each for each in self.leaders() if each.pid != self.pid), None)

        return self.wait_until(look, "engine process")

    def wait_until_all_gone(self, within: float = PATIENCE) -> None:
        """Until not one process is left."""
        deadline = time.monotonic() + within
        while left := self.processes():
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False  # dead, only not yet reaped
            session = os.getsid(process.pid)
            if process.environ().get(_MARK) == self._mark:
                self._sessions.add(session)
            return session in self._sessions
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            return False
