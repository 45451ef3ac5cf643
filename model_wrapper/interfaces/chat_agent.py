"""The model as MLflow's ``ChatAgent``: what ``POST /invocations`` of the gateway answers.

Answers are JSON objects and not pydantic ones: MLflow checks them against its schema all the
same, and passes them on as they are, so that both routes give the same answer.
"""

from collections.abc import Iterator
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import ChatAgent
from mlflow.types.agent import ChatAgentMessage, ChatContext

from app.schemas.chat_agent_answer import last_chunks, response, text_chunk
from app.service import Text
from model_wrapper.errors import as_mlflow_errors
from model_wrapper.lazy_backend import LazyBackend
from model_wrapper.logging_time import ANSWER, being_logged

JSONObject = dict[str, Any]


class SGLangChatAgent(ChatAgent):
    """A language model behind SGLang, as a ChatAgent."""

    def __init__(self) -> None:
        self._backend = LazyBackend()

    def load_context(self, context: Any) -> None:
        """Called by MLflow with artifacts and configuration."""
        with as_mlflow_errors():
            self._backend.load(context)

    def predict(
        self,
        messages: list[ChatAgentMessage],
        context: ChatContext | None = None,
        custom_inputs: JSONObject | None = None,
    ) -> JSONObject:
        """The whole answer: a ``ChatAgentResponse`` as a JSON object."""
        if being_logged():
            return response(ANSWER, "logging")
        with as_mlflow_errors():
            chat, answer = self._backend.get().complete(_body(messages, context, custom_inputs))
            return response(answer, chat.answer_id)

    def predict_stream(
        self,
        messages: list[ChatAgentMessage],
        context: ChatContext | None = None,
        custom_inputs: JSONObject | None = None,
    ) -> Iterator[JSONObject]:
        """The answer in ``ChatAgentChunk`` objects. Closing it aborts the generation."""
        body = _body(messages, context, custom_inputs)
        with as_mlflow_errors(), self._backend.get().stream(body) as (chat, pieces):
            for piece in pieces:
                if isinstance(piece, Text):
                    yield text_chunk(piece.text, chat.answer_id)
                else:
                    yield from last_chunks(piece.text, piece.answer, chat.answer_id)

    def shutdown(self) -> None:
        """End the engine, if this process started it."""
        self._backend.stop()


def _body(
    messages: list[ChatAgentMessage], context: ChatContext | None, custom_inputs: JSONObject | None
) -> JSONObject:
    body: JSONObject = {"messages": [message.model_dump(exclude_none=True) for message in messages]}
    if context is not None:
        body["context"] = context.model_dump(exclude_none=True)
    if custom_inputs is not None:
        body["custom_inputs"] = custom_inputs
    return body


set_model(SGLangChatAgent())
