"""``mlflow models serve``: MLflow's own server with workers that each load the model."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.wrapper.sandbox import Sandbox, free_port, wait_until

_STARTED = "Application startup complete"


@dataclass(frozen=True)
class Scoring:
    """One run of the server."""

    url: str
    workers: int
    process: subprocess.Popen[str]
    log: Path

    def invoke(self, **body: Any) -> requests.Response:
        """POST /invocations."""
        return requests.post(f"{self.url}/invocations", json=body, timeout=120)

    def wait_until_up(self) -> None:
        """Return once every worker has loaded the model."""
        wait_until(lambda: self.process.poll() is not None or self._all_started(), "server")
        assert self.process.poll() is None, self.text[-4000:]

    @property
    def text(self) -> str:
        """What it printed."""
        return self.log.read_text("utf-8", "replace")

    def _all_started(self) -> bool:
        return self.text.count(_STARTED) >= self.workers


@contextmanager
def serving(sandbox: Sandbox, uri: str, *, workers: int) -> Iterator[Scoring]:
    """Start the server, not yet up; end it with all that it started."""
    port = free_port()
    log = sandbox.folder / f"scoring-{port}.log"
    with log.open("wb") as output:
        process = sandbox.start(
            *("-m", "mlflow", "models", "serve", "--env-manager", "local"),
            *("--model-uri", uri, "--port", str(port)),
            output=output,
            stdout=output,
            environment={
                "MLFLOW_MODELS_WORKERS": str(workers),
                # Sixty by default, which long answers on a busy machine can exceed.
                "MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT": "300",
            },
            start_new_session=True,
        )
    yield Scoring(f"http://127.0.0.1:{port}", workers, process, log)
    process.terminate()
    process.wait(60)
    wait_until(lambda: not sandbox.engines(), "end of the engine with its owner", within=30)
