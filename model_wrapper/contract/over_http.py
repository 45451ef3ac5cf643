"""Checks of the model behind MLflow's own server, ``mlflow models serve``."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engines import wait_until
from .outcome import Failed, require
from .seen import read_answer
from .subject import GREEDY, Subject

_START_WITHIN = 600.0
_JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    content_type: str
    body: str

    @property
    def json(self) -> Any:
        """Its body."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failed(f"HTTP {self.status} whose body is no JSON: {self.body[:100]!r}") from None


@dataclass(frozen=True)
class Server:
    """A server that runs: ``mlflow models serve``, or the model's own entrypoint."""

    url: str

    def post(self, body: Any, content_type: str = _JSON, path: str = "/invocations") -> Reply:
        """Ask it."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        return self._send(urllib.request.Request(self.url + path, data, headers))  # noqa: S310

    def get(self, path: str) -> Reply:
        """Get a page."""
        return self._send(urllib.request.Request(self.url + path))  # noqa: S310

    def _send(self, request: urllib.request.Request) -> Reply:
        try:
            answer = urllib.request.urlopen(request, timeout=300)  # noqa: S310
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode("utf-8", "replace")
            return Reply(answer.status, answer.headers.get("Content-Type", ""), text)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(subject: Subject) -> Iterator[Server]:
    """MLflow's server with the model, in the model's environment."""
    port = free_port()
    log = Path(subject.scratch, "mlflow-serve.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(subject.python, "-m", "mlflow", "models", "serve", "--model-uri"),
                *(str(subject.folder), "--env-manager", "local"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            cwd=subject.scratch,
            env=dict(os.environ),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}")

    def settled() -> bool:
        return process.poll() is not None or _answers(server)

    try:
        if not wait_until(settled, _START_WITHIN) or process.poll() is not None:
            told = log.read_text("utf-8", "replace")
            sys.stderr.write(told)
            lines = told.strip().splitlines() or ["no output"]
            raise Failed(f"mlflow models serve does not come up: {lines[-1][:200]}")
        yield server
    finally:
        # All its workers are in its process group.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(server: Server) -> bool:
    try:
        return server.get("/ping").status == 200
    except OSError:
        return False


def answers(subject: Subject, server: Server) -> str:
    """The same answer as from ``predict``; ``stream`` is ignored, as MLflow's server does."""
    plain = server.post(subject.request(**GREEDY))
    require(plain.status == 200, f"HTTP {plain.status}: {plain.body[:150]}")
    over_http = read_answer(subject.interface, plain.json).text
    same = subject.gives(lambda text: text == over_http)
    require(same, f"over HTTP it answers {over_http[:60]!r}")
    streamed = server.post(subject.request(**GREEDY) | {"stream": True})
    require(streamed.status == 200, f'with "stream": true HTTP {streamed.status}')
    require(
        streamed.content_type.startswith(_JSON) and streamed.json,
        f'with "stream": true it sends {streamed.content_type}',
    )
    for path in ("/ping", "/health", "/version"):
        require(server.get(path).status == 200, f"GET {path} gives {server.get(path).status}")
    return plain.content_type


def errors(subject: Subject, server: Server) -> str:
    """Bad requests get a 4xx status and MLflow's error code."""
    cases: dict[str, tuple[Any, str, int]] = {
        "an unknown parameter": (subject.request(temperatur=0.0), _JSON, 400),
        "no message": (subject.request([]), _JSON, 400),
        "broken JSON": ('{"messages": [', _JSON, 400),
        "an empty object": ({}, _JSON, 400),
        "plain text": ("hello", "text/plain", 415),
    }
    for what, (body, content_type, status) in cases.items():
        reply = server.post(body, content_type)
        require(reply.status == status, f"{what}: HTTP {reply.status}, not {status}")
        if status == 400:
            require("error_code" in reply.json, f"{what}: no error_code in {reply.body[:100]!r}")
    return f"{len(cases)} kinds of bad requests"
