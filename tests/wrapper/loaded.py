"""A logged model, loaded by MLflow in a process of its own."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.wrapper.sandbox import Sandbox

_SCRIPT = Path(__file__).with_name("ask_model.py")
_numbers = iter(range(10_000))


class LoadedModel:
    """One process. Use it in a ``with`` statement."""

    def __init__(self, sandbox: Sandbox, uri: str, **environment: str) -> None:
        self._log = sandbox.folder / f"model-{next(_numbers)}.log"
        with self._log.open("wb") as output:
            self.process = sandbox.start(
                *(str(_SCRIPT), uri),
                output=output,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                environment=environment,
            )

    def __enter__(self) -> LoadedModel:
        self.facts = self._read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> int:
        """Let it end by itself, as a script does; its exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it was killed
            self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        return status

    def predict(self, **request: Any) -> Any:
        """The answer of ``predict``."""
        return self._good("predict", request)["answer"]

    def stream(self, **request: Any) -> list[Any]:
        """The chunks of ``predict_stream``."""
        chunks: list[Any] = self._good("stream", request)["chunks"]
        return chunks

    def refused(self, method: str = "predict", **request: Any) -> Any:
        """The error of a call that must fail: code, message and status."""
        answer = self.ask(method, request)
        assert "error" in answer, answer
        return answer

    def send(self, method: str, request: dict[str, Any], **more: Any) -> None:
        """Ask without waiting."""
        assert self.process.stdin is not None
        question = {"method": method, "input": request, **more}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, request: dict[str, Any], **more: Any) -> Any:
        """Whatever comes back."""
        self.send(method, request, **more)
        return self._read()

    def read(self) -> Any:
        """The answer to what was sent."""
        return self._read()

    def _good(self, method: str, request: dict[str, Any]) -> Any:
        answer = self.ask(method, request)
        assert "error" not in answer, answer
        return answer

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process ended:\n{self._log.read_text('utf-8', 'replace')[-4000:]}"
        return json.loads(line)
