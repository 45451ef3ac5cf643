"""The model as MLflow's ``ResponsesAgent``, which MLflow recommends since 3.0."""

from collections.abc import Iterator
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import ResponsesAgent
from mlflow.types.responses import ResponsesAgentRequest

from app.service import Text
from model_wrapper.errors import as_mlflow_errors
from model_wrapper.interfaces.responses_mapping import (
    chat_body,
    last_events,
    response,
    text_event,
)
from model_wrapper.lazy_backend import LazyBackend
from model_wrapper.logging_time import ANSWER, being_logged

JSONObject = dict[str, Any]


class SGLangResponsesAgent(ResponsesAgent):
    """A language model behind SGLang, as a ResponsesAgent."""

    def __init__(self) -> None:
        self._backend = LazyBackend()

    def load_context(self, context: Any) -> None:
        """Called by MLflow with artifacts and configuration."""
        with as_mlflow_errors():
            self._backend.load(context)

    def predict(self, request: ResponsesAgentRequest) -> JSONObject:
        """The whole answer: a ``ResponsesAgentResponse`` as a JSON object."""
        if being_logged():
            return response(ANSWER, "logging")
        with as_mlflow_errors():
            body = chat_body(request.model_dump(exclude_none=True))
            chat, answer = self._backend.get().complete(body)
            return response(answer, chat.answer_id)

    def predict_stream(self, request: ResponsesAgentRequest) -> Iterator[JSONObject]:
        """The answer as ``ResponsesAgentStreamEvent`` objects. Closing it aborts the generation."""
        with as_mlflow_errors():
            body = chat_body(request.model_dump(exclude_none=True))
        with as_mlflow_errors(), self._backend.get().stream(body) as (chat, pieces):
            for piece in pieces:
                if isinstance(piece, Text):
                    yield text_event(piece.text, chat.answer_id)
                else:
                    yield from last_events(piece.text, piece.answer, chat.answer_id)

    def shutdown(self) -> None:
        """End the engine, if this process started it."""
        self._backend.stop()


set_model(SGLangResponsesAgent())
