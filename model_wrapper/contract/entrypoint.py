"""Checks of a model's own server: Databricks' custom LLM serving starts it, not MLflow.

The command in the metadata ``entrypoint`` is started in the artifacts folder and must speak
OpenAI's chat on port 8080, at ``/invocations`` too
(https://docs.databricks.com/aws/en/machine-learning/model-serving/serve-custom-llms). Here it gets
a free port of this machine alone by ``PORT`` and ``HOST``.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from .engines import running_engines, wait_until
from .outcome import Failed, Questionable, require
from .over_http import Server, free_port
from .subject import QUESTION, Subject

Check = Callable[[], str | None]

TASK = "llm/v1/chat"
PORT = 8080
_START_WITHIN = 1800.0
_END_WITHIN = 60.0
_CHAT = "/v1/chat/completions"
# Requests that come through Databricks name no model.
_ASKED: dict[str, Any] = {"messages": QUESTION, "temperature": 0, "max_tokens": 24}
_TRIES = 3
_OWN_SETTINGS = Path("server", "settings.json")


class Entrypoint:
    """The server of a model that has one."""

    def __init__(self, subject: Subject, command: str) -> None:
        self._subject = subject
        self._command = command
        self._folder = subject.folder / "artifacts"
        self._log = subject.scratch / "entrypoint.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.server = Server(f"http://127.0.0.1:{free_port()}")

    def checks(self) -> Generator[tuple[str, Check, str], None, None]:
        """Name, check and advice. Those that need the server are left out if it is not up."""
        log = "The log has what it printed."
        openai = "INVOCATIONS=openai makes the gateway's /invocations speak OpenAI's chat."
        try:
            yield "entrypoint: task and port", self.description, "Log with --route entrypoint."
            yield "entrypoint: comes up", self.start, log
            if self._process is None or self._process.poll() is not None:
                return
            yield "entrypoint: routes", self.routes, "See app/gateway/."
            yield "entrypoint: answers", self.answers, openai
            yield "entrypoint: errors", self.errors, openai
            yield "entrypoint: SIGTERM ends it", self.end, "End what is left by hand."
        finally:
            self.kill()

    def description(self) -> str:
        """What the platform reads before it starts anything."""
        task = self._subject.task
        require(task == TASK, f"the task is {task!r}; Databricks takes {TASK} only")
        port, host = self._listens_on()
        require(port in (None, PORT), f"it listens on port {port}; Databricks asks port {PORT}")
        require(
            host not in ("127.0.0.1", "localhost", "::1"),
            f"it listens on {host}, where nobody outside of its container can ask it",
        )
        if port is None:
            raise Questionable(
                "the command does not say on which port it listens",
                f"Databricks asks port {PORT} of all addresses (0.0.0.0).",
            )
        return f"{self._command!r}, port {port} of {host}"

    def start(self) -> str:
        """Start it and wait until it has a model to show."""
        inherited = {key: value for key, value in os.environ.items() if key != "API_KEY"}
        # `python` must be the one of the model's environment.
        path = f"{Path(self._subject.python).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        port = self.server.url.rpartition(":")[2]
        started = time.monotonic()
        with self._log.open("wb") as output:
            self._process = process = subprocess.Popen(
                shlex.split(self._command),
                cwd=self._folder,
                env={**inherited, "PATH": path, "HOST": "127.0.0.1", "PORT": port},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(lambda: process.poll() is not None or self._shows_a_model(), _START_WITHIN)
        if process.poll() is not None or not self._shows_a_model():
            told = self._log.read_text("utf-8", "replace")
            sys.stderr.write(told)
            self.kill()
            lines = told.strip().splitlines() or ["no output"]
            raise Failed(f"no answer at /v1/models: {lines[-1][:200]}")
        return f"/v1/models after {time.monotonic() - started:.0f} s"

    def routes(self) -> str:
        """The routes that are asked by platform, monitoring and people."""
        paths = ("/v1/models", "/health", "/ping", "/metrics")
        for path in paths:
            status = self.server.get(path).status
            require(status == 200, f"GET {path} gives {status}")
        metrics = self.server.get("/metrics").body
        require(re.search(r"^# TYPE \w+ \w+$", metrics, re.M), "/metrics has no Prometheus format")
        return " ".join(paths)

    def answers(self) -> str:
        """The same text on both routes, whole and streamed."""
        (model, *_) = [each["id"] for each in self.server.get("/v1/models").json["data"]]
        named = _ASKED | {"model": model}
        # The second one is computed from the prefix cache, which may break a tie between two words
        # differently; so may a batch with another request.
        texts = {self._text(_CHAT, named) for _ in range(2)}
        require(all(text.strip() for text in texts), "the answer is empty")
        for path, body in ((_CHAT, named), ("/invocations", named), ("/invocations", _ASKED)):
            for asked in (self._text, self._streamed):
                same = any(asked(path, body) in texts for _ in range(_TRIES))
                require(same, f"POST {path} ({asked.__name__[1:]}) gives another text")
        return f"{texts.pop()[:60]!r}"

    def errors(self) -> str:
        """Bad requests are told in OpenAI's form, which its clients can read."""
        cases: dict[str, Any] = {
            "no message": _ASKED | {"messages": []},
            "a parameter that is no number": _ASKED | {"temperature": "warm"},
            "broken JSON": '{"messages": [',
        }
        for what, body in cases.items():
            reply = self.server.post(body)
            require(reply.status == 400, f"{what}: HTTP {reply.status}, not 400")
            error = reply.json.get("error")
            told = isinstance(error, dict) and error.get("message") and error.get("type")
            require(told, f"{what}: the body is {reply.body[:100]!r}")
        return f"{len(cases)} kinds of bad requests"

    def end(self) -> str:
        """SIGTERM ends it and all that it has started."""
        if self._process is None:
            return "not started"
        self._process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        try:
            status = self._process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            raise Failed(f"it runs on {_END_WITHIN:.0f} s after SIGTERM") from None
        seconds = time.monotonic() - started
        require(
            wait_until(lambda: not running_engines(self._subject.scratch), 5),
            "its engine runs on",
            "It keeps the GPU's memory: end it by hand.",
        )
        require(status in (0, -signal.SIGTERM), f"it ends with status {status}")
        return f"status {status} after {seconds:.1f} s"

    def kill(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _listens_on(self) -> tuple[int | None, str | None]:
        """Port and address as the command or our own settings say, without binding them."""
        own = self._folder / _OWN_SETTINGS
        if shlex.split(self._command)[-1] == _OWN_SETTINGS.parent.name and own.is_file():
            http = json.loads(own.read_text("utf-8"))["http"]
            return int(http["port"]), str(http["host"])
        options = dict(re.findall(r"--(port|host)[ =](\S+)", self._command))
        return int(options["port"]) if "port" in options else None, options.get("host")

    def _shows_a_model(self) -> bool:
        try:
            reply = self.server.get("/v1/models")
        except OSError:
            return False
        return reply.status == 200 and bool(reply.json.get("data"))

    def _text(self, path: str, body: dict[str, Any]) -> str:
        reply = self.server.post(body, path=path)
        require(reply.status == 200, f"POST {path}: HTTP {reply.status}: {reply.body[:150]}")
        (choice,) = reply.json["choices"]
        return str(choice["message"]["content"])

    def _streamed(self, path: str, body: dict[str, Any]) -> str:
        reply = self.server.post(body | {"stream": True}, path=path)
        require(reply.status == 200, f"POST {path}, streamed: HTTP {reply.status}")
        kind = reply.content_type
        require(kind.startswith("text/event-stream"), f"POST {path}, streamed: it sends {kind}")
        events = [line[5:].strip() for line in reply.body.splitlines() if line.startswith("data:")]
        require(events and events[-1] == "[DONE]", f"POST {path}, streamed: no [DONE] at the end")
        choices = [choice for each in events[:-1] for choice in json.loads(each)["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices)
