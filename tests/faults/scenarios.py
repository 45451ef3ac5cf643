"""Faults done to a running server, and what its callers notice of each.

While a fault happens one stream is open, a client asks short questions one after another, and a
third looks at ``/health/ready``.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import requests

from tests.process.asking import OpenStream, invocation, readiness
from tests.process.server import ServerProcess

LONG = 400  # tokens of the open stream
PATIENCE = 180.0
HANG_TIMEOUT = 5.0
SETTINGS = {
    "ENGINE_HANG_TIMEOUT": str(HANG_TIMEOUT),
    "ENGINE_MAX_RESTARTS": "9",  # one server meets fault after fault
    "SHUTDOWN_GRACE": "120",
}


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong."""

    name: str
    happen: Callable[[ServerProcess], None]
    survives: bool = True
    """Whether the server goes on afterwards."""


@dataclass
class Seen:
    """What came of it."""

    stream: str = ""
    """How the open stream ended."""
    noticed: float | None = None
    """Seconds until ``/health/ready`` said no, or the server was gone."""
    recovered: float | None = None
    """Seconds until a short question was answered again."""
    lost: list[str] = field(default_factory=list)
    """Short questions that got neither an answer nor the word to come back."""
    refused: int = 0
    """Short questions that were told to come back: 503 with Retry-After."""
    answered: int = 0


def _engine(server: ServerProcess) -> list[psutil.Process]:
    leader = server.engine()
    return [leader, *leader.children(recursive=True)]


def _worker(server: ServerProcess, name: str) -> psutil.Process:
    return next(each for each in _engine(server) if each.name().startswith(name))


def _stop_all(server: ServerProcess) -> None:
    for process in _engine(server):
        process.send_signal(signal.SIGSTOP)


ENGINE_KILLED = Fault("engine killed (kill -9)", lambda server: server.engine().kill())
ENGINE_STOPPED = Fault("engine hangs (SIGSTOP)", _stop_all)
SCHEDULER_KILLED = Fault(
    "scheduler killed (kill -9)", lambda server: _worker(server, "sglang::sched").kill()
)
SCHEDULER_STOPPED = Fault(
    "scheduler hangs (SIGSTOP)",
    lambda server: _worker(server, "sglang::sched").send_signal(signal.SIGSTOP),
)
SHUT_DOWN = Fault(
    "docker stop (SIGTERM)", lambda server: server.send(signal.SIGTERM), survives=False
)
OF_ANY_ENGINE = (ENGINE_KILLED, ENGINE_STOPPED, SHUT_DOWN)
OF_SGLANG = (ENGINE_KILLED, SCHEDULER_KILLED, ENGINE_STOPPED, SCHEDULER_STOPPED, SHUT_DOWN)


def watch(server: ServerProcess, fault: Fault) -> Seen:
    """Let the fault happen to a server once it is ready, and see what follows."""
    server.wait_until(lambda: readiness(server).ok, "ready server", within=PATIENCE)
    seen = Seen()
    stream = OpenStream(server.url, LONG)
    with _asking(server.url, seen) as clients:
        clients.wait_for(lambda: seen.answered > 0, "answer before the fault")
        clients.happened = time.monotonic()
        fault.happen(server)
        seen.stream = _end_of(stream)
        if fault.survives:
            clients.wait_for(lambda: seen.recovered is not None, "answer after the fault")
        else:
            server.wait_for_end()
            clients.wait_for(lambda: seen.noticed is not None, "end of the server")
    return seen


class _Clients:
    """Two threads that ask all the time."""

    def __init__(self, url: str, seen: Seen) -> None:
        self.happened: float | None = None
        self._url = url
        self._seen = seen
        self._done = threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self._ask, self._look)]

    def wait_for(self, look: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not look():
            assert time.monotonic() < deadline, f"no {what}; seen so far: {self._seen}"
            time.sleep(0.02)

    def end(self) -> None:
        self._done.set()
        for thread in self.threads:
            thread.join()

    def _since(self) -> float:
        assert self.happened is not None
        return time.monotonic() - self.happened

    def _ask(self) -> None:
        """Short questions."""
        while not self._done.wait(0.05):
            before = self.happened is None
            try:
                answer = requests.post(
                    f"{self._url}/invocations", json=invocation(2), timeout=PATIENCE
                )
            except requests.RequestException as error:
                if self._seen.noticed is None and not before:
                    self._seen.noticed = self._since()
                if isinstance(error, requests.ConnectionError) and "refused" in str(error).lower():
                    continue  # nothing listens: it was not taken, so it is not lost
                self._seen.lost.append(type(error).__name__)
                continue
            if answer.ok:
                self._seen.answered += 1
                if self._seen.noticed is not None and self._seen.recovered is None:
                    self._seen.recovered = self._since()
            elif answer.status_code == 503 and "Retry-After" in answer.headers:
                self._seen.refused += 1
            else:
                self._seen.lost.append(f"{answer.status_code} {answer.text[:100]}")

    def _look(self) -> None:
        while not self._done.wait(0.02):
            if self.happened is None or self._seen.noticed is not None:
                continue
            try:
                ready = requests.get(f"{self._url}/health/ready", timeout=PATIENCE).ok
            except requests.RequestException:
                ready = False
            if not ready and self._seen.noticed is None:
                self._seen.noticed = self._since()


@contextmanager
def _asking(url: str, seen: Seen) -> Iterator[_Clients]:
    clients = _Clients(url, seen)
    for thread in clients.threads:
        thread.start()
    try:
        yield clients
    finally:
        clients.end()


def _end_of(stream: OpenStream) -> str:
    events: list[Any] = stream.rest()
    if not events or events[-1] != "[DONE]":
        return "broke off"
    last = events[-2] if len(events) > 1 else stream.first
    if "error" in last:
        return f"error event {last['error']['error_code']}, [DONE]"
    return f"whole answer ({last['finish_reason']}), [DONE]"
