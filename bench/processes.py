"""The processes of a run: started on their core, asked whether they answer, ended."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from app.settings import Settings
from bench.environments import ROOT, CannotMeasureError, folder, python_of
from bench.peers.catalogue import Peer, Server
from bench.scenarios import MODEL, body

LAST_WORD = b"Zq9END"  # of a plain answer of the scripted engine
_PATIENCE = 180.0  # seconds until a server must have answered; the first start of some is slow


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    """Our own, without what would change how a server behaves."""
    ours = {name.upper() for name in Settings.model_fields}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("PYTHON")
    }
    return kept | {"NO_PROXY": "*", "no_proxy": "*", "DO_NOT_TRACK": "true"}


class _Process:
    """A process group on one core, whose output goes to a file."""

    def __init__(self, name: str, command: list[str], core: int, variables: dict[str, str]) -> None:
        self.log = folder("logs") / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["taskset", "-c", str(core), *command],  # noqa: S607
                cwd=folder("run"),
                env=_environment() | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def tree(self) -> list[psutil.Process]:
        """It and its children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def cpu(self) -> float:
        """Seconds of CPU that its processes have used."""
        total = 0.0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def rss(self) -> float:
        """Resident memory of all its processes in MB (10^6 bytes)."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / 1e6

    def stop(self) -> None:
        """End it and its children, by force if they don't."""
        processes = self.tree()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(processes, timeout=8)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


class ScriptedEngine(_Process):
    """bench/rig/upstream.c."""

    def __init__(self, rig: Path, core: int) -> None:
        super().__init__("engine", [str(rig / "upstream"), "0"], core, {})
        until = time.monotonic() + 10
        while not (port := self.log.read_text().strip()):
            if time.monotonic() > until or self._process.poll() is not None:
                self.stop()
                raise CannotMeasureError("the scripted engine does not start")
            time.sleep(0.02)
        self.port = int(port)
        self.url = f"http://127.0.0.1:{port}"

    def behave(self, **how: int) -> None:
        """How it answers from now on; what is not named gets its default."""
        plain = {"tokens": 128, "delay_us": 0, "first_us": 0, "think_us": 0, "batch": 1, "sync": 0}
        query = "&".join(f"{name}={value}" for name, value in (plain | how).items())
        urllib.request.urlopen(f"{self.url}/__behave?{query}", timeout=30).read()  # noqa: S310


class RunningServer(_Process):
    """A server of the catalogue, before the scripted engine.

    Raises:
        CannotMeasureError: its packages can't be installed, or its preparation failed.
    """

    def __init__(self, name: str, server: Server, engine: str, key: str, core: int) -> None:
        python = python_of(server.environment)
        self.port = free_port()
        self.key = key
        self.rss_idle = 0.0
        places = {
            "python": str(python),
            "bin": str(python.parent),
            "port": str(self.port),
            "second_port": str(free_port()),
            "engine": engine,
            "key": key,
            "model": MODEL,
            "peers": str(ROOT / "bench" / "peers"),
            "root": str(ROOT),
            "work": str(folder("run")),
        }
        variables = {one: text.format(**places) for one, text in server.variables.items()}
        # Servers that start a program of their environment by name look for it in the path.
        variables["PATH"] = f"{python.parent}:{os.environ['PATH']}"
        if server.prepare:
            command = [part.format(**places) for part in server.prepare]
            done = subprocess.run(
                command, env=_environment() | variables, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise CannotMeasureError(f"preparing it failed: {done.stderr.strip()[-300:]}")
        command = [part.format(**places) for part in server.command]
        super().__init__(name, command, core, variables)

    def wait_until_it_answers(self, peer: Peer) -> None:
        """Ask until a whole answer comes; then note how much memory it uses at rest.

        Raises:
            CannotMeasureError: it ended, or none came in three minutes.
        """
        until = time.monotonic() + _PATIENCE
        said = "nothing"
        while time.monotonic() < until and self._process.poll() is None:
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}{peer.path}",
                body(peer.speaks, stream=False, long_prompt=False),
                {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"},
            )
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                    if LAST_WORD in answer.read():
                        time.sleep(1)
                        self.rss_idle = self.rss()
                        return
            except urllib.error.HTTPError as error:
                said = f"{error.code} {error.read(200)!r}"
            except OSError as error:
                said = str(error)
            time.sleep(0.5)
        raise CannotMeasureError(f"it does not answer ({said}); see {self.log}")
