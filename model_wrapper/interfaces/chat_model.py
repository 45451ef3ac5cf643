"""The model as MLflow's ``ChatModel``: OpenAI's chat completion as request and answer."""

import time
from collections.abc import Iterator
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import ChatModel
from mlflow.types.llm import ChatCompletionChunk, ChatCompletionResponse, ChatMessage, ChatParams

from app.schemas.answer import Answer
from app.schemas.chat_agent_answer import BLANK, tool_calls
from app.service import Text
from model_wrapper.errors import as_mlflow_errors
from model_wrapper.lazy_backend import LazyBackend
from model_wrapper.logging_time import ANSWER, being_logged

JSONObject = dict[str, Any]

# Parameters that MLflow's dataclass knows. ``stream`` is the caller's choice of the method.
_PARAMETERS = (
    *("temperature", "max_tokens", "stop", "n", "top_p", "top_k"),
    *("frequency_penalty", "presence_penalty", "tools"),
)


class SGLangChatModel(ChatModel):
    """A language model behind SGLang, as a ChatModel."""

    def __init__(self) -> None:
        self._backend = LazyBackend()

    def load_context(self, context: Any) -> None:
        """Called by MLflow with artifacts and configuration."""
        with as_mlflow_errors():
            self._backend.load(context)

    def predict(
        self, context: Any, messages: list[ChatMessage], params: ChatParams
    ) -> ChatCompletionResponse:
        """The whole answer."""
        if being_logged():
            return _response(ANSWER, "logging", "")
        with as_mlflow_errors():
            chat, answer = self._backend.get().complete(_body(messages, params))
            return _response(answer, chat.answer_id, str(chat.body["model"]))

    def predict_stream(
        self, context: Any, messages: list[ChatMessage], params: ChatParams
    ) -> Iterator[ChatCompletionChunk]:
        """The answer piece by piece. Closing it aborts the generation."""
        body = _body(messages, params)
        with as_mlflow_errors(), self._backend.get().stream(body) as (chat, pieces):
            model = str(chat.body["model"])
            for piece in pieces:
                last = None if isinstance(piece, Text) else piece.answer
                yield _chunk(piece.text, last, chat.answer_id, model)

    def shutdown(self) -> None:
        """End the engine, if this process started it."""
        self._backend.stop()


def _body(messages: list[ChatMessage], params: ChatParams) -> JSONObject:
    given = params.to_dict()
    inputs = {name: given[name] for name in _PARAMETERS if given.get(name) is not None}
    return {
        "messages": [_message(message.to_dict()) for message in messages],
        "custom_inputs": inputs | (params.custom_inputs or {}),
    }


def _message(message: JSONObject) -> JSONObject:
    """A refusal is an answer that the model gave, to the model as to us."""
    refusal = message.pop("refusal", None)
    return message if refusal is None else {**message, "content": refusal}


def _response(answer: Answer, answer_id: str, model: str) -> ChatCompletionResponse:
    # MLflow's dataclass takes no message with neither content nor calls.
    message: JSONObject = {"role": "assistant", "content": answer.content or BLANK}
    if answer.tool_calls:
        message |= {"content": answer.content, "tool_calls": tool_calls(answer)}
    whole = {
        "id": answer_id,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
        **_closing(answer),
    }
    return ChatCompletionResponse.from_dict(whole)


def _chunk(text: str, last: Answer | None, answer_id: str, model: str) -> ChatCompletionChunk:
    delta: JSONObject = {"role": "assistant", "content": text}
    choice: JSONObject = {"index": 0, "delta": delta, "finish_reason": None}
    whole: JSONObject = {"id": answer_id, "model": model, "created": int(time.time())}
    if last is not None:
        choice["finish_reason"] = last.finish_reason
        if last.tool_calls:
            delta["tool_calls"] = tool_calls(last)
        whole |= _closing(last)
    return ChatCompletionChunk.from_dict(whole | {"choices": [choice]})


def _closing(answer: Answer) -> JSONObject:
    closing: JSONObject = {}
    if answer.usage is not None:
        closing["usage"] = {
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "total_tokens": answer.usage.total_tokens,
        }
    if answer.reasoning:
        closing["custom_outputs"] = {"reasoning_content": answer.reasoning}
    return closing


set_model(SGLangChatModel())
