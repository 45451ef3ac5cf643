"""The model under test, and what the checks need to know of it."""

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models import Model
from mlflow.pyfunc import PyFuncModel

from .seen import JSONObject, Seen, interface_of, read_answer, read_stream, request

# Greedy and short: the same words every time, in a second even on a CPU.
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 24}
_TRIES = 3
QUESTION: list[JSONObject] = [{"role": "user", "content": "Name three colours."}]


@dataclass
class Subject:
    """A logged model in a folder, loaded as its callers load it."""

    folder: Path
    scratch: Path
    """The validation's own temporary folder."""
    env_manager: str = "local"
    _loaded: PyFuncModel | None = field(default=None, init=False)

    def load(self) -> None:
        """Load it."""
        self._loaded = mlflow.pyfunc.load_model(str(self.folder))

    @property
    def pyfunc(self) -> PyFuncModel:
        """The loaded model."""
        if self._loaded is None:
            raise RuntimeError("the model could not be loaded")
        return self._loaded

    @cached_property
    def description(self) -> Model:
        """Its ``MLmodel`` file."""
        return Model.load(str(self.folder))

    @property
    def flavor(self) -> JSONObject:
        """What ``MLmodel`` says about it as a Python function."""
        flavor: JSONObject = self.description.flavors["python_function"]
        return flavor

    @property
    def config(self) -> JSONObject:
        """Its ``model_config``."""
        return self.flavor.get("config") or {}

    @property
    def code(self) -> Path:
        """The code that came with it."""
        return self.folder / str(self.flavor.get("code") or "code")

    @property
    def task(self) -> str:
        """What Databricks takes it for."""
        return str((self.description.metadata or {}).get("task", ""))

    @cached_property
    def interface(self) -> str:
        """Its MLflow interface."""
        signature = self.description.signature
        return interface_of(signature.inputs.input_names() if signature else ())

    def request(self, messages: list[JSONObject] = QUESTION, **parameters: Any) -> JSONObject:
        """A request in its interface's words."""
        return request(self.interface, messages, **parameters)

    def ask(self, body: JSONObject | None = None) -> Seen:
        """A whole answer."""
        body = body or self.request(**GREEDY)
        return read_answer(self.interface, as_object(self.pyfunc.predict(body)))

    def chunks(self, body: JSONObject) -> Generator[JSONObject, None, None]:
        """A stream's chunks, as JSON objects. Has ``close``, as what MLflow returns has."""
        stream = self.pyfunc.predict_stream(body)
        try:
            for chunk in stream:
                yield as_object(chunk)
        finally:
            stream.close()

    def stream(self, body: JSONObject | None = None) -> Seen:
        """A streamed answer, read to its end."""
        return read_stream(self.interface, self.chunks(body or self.request(**GREEDY)))

    @cached_property
    def answer(self) -> Seen:
        """The greedy answer to the question that all checks share."""
        return self.ask()

    @cached_property
    def streamed(self) -> Seen:
        """The same answer as a stream."""
        return self.stream()

    def gives(self, matches: Callable[[str], bool]) -> bool:
        """Whether ``predict`` gives a text that matches, for the question that all checks share.

        It is asked again if the first one does not: a busy engine computes in other batches, and
        may then break a tie between two words differently.
        """
        if matches(self.answer.text):
            return True
        return any(matches(self.ask().text) for _ in range(_TRIES))

    def shutdown(self) -> None:
        """End its engine, if it has a way to."""
        get_raw = getattr(self.pyfunc, "get_raw_model", None) or self.pyfunc.unwrap_python_model
        raw = get_raw()
        raw = getattr(raw, "python_model", raw)
        if hasattr(raw, "shutdown"):
            raw.shutdown()

    @property
    def python(self) -> str:
        """The interpreter of its environment: this one."""
        return sys.executable


def as_object(value: Any) -> JSONObject:
    """MLflow hands out dictionaries and, for some interfaces, its own classes."""
    if isinstance(value, dict):
        return value
    if hasattr(value, "model_dump"):
        dumped: JSONObject = value.model_dump(exclude_none=True)
        return dumped
    converted: JSONObject = value.to_dict()
    return converted
