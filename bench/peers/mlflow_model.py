"""The ChatAgent of many a blog post: a model from code, the synchronous openai client."""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import mlflow
from mlflow.pyfunc import ChatAgent
from mlflow.types.agent import ChatAgentChunk, ChatAgentMessage, ChatAgentResponse
from openai import OpenAI

USAGE = {"prompt_tokens", "completion_tokens", "total_tokens"}


class EngineAgent(ChatAgent):
    """Asks the engine."""

    def __init__(self) -> None:
        self.client = OpenAI(base_url=os.environ["BENCH_ENGINE"], api_key="none")
        self.model = os.environ["BENCH_MODEL"]

    @staticmethod
    def _messages(messages: list[ChatAgentMessage]) -> list[Any]:
        fields = {"role", "content"}
        return [message.model_dump(include=fields, exclude_none=True) for message in messages]

    def predict(
        self, messages: list[ChatAgentMessage], context: Any = None, custom_inputs: Any = None
    ) -> ChatAgentResponse:
        """A whole answer."""
        answer = self.client.chat.completions.create(
            model=self.model, messages=self._messages(messages)
        )
        choice = answer.choices[0]
        return ChatAgentResponse(
            messages=[
                ChatAgentMessage(id=answer.id, role="assistant", content=choice.message.content)
            ],
            finish_reason=choice.finish_reason,
            usage=answer.usage.model_dump(include=USAGE),
        )

    def predict_stream(
        self, messages: list[ChatAgentMessage], context: Any = None, custom_inputs: Any = None
    ) -> Iterator[ChatAgentChunk]:
        """A streamed answer, which MLflow's server never asks for."""
        message_id = str(uuid.uuid4())
        for chunk in self.client.chat.completions.create(
            model=self.model, messages=self._messages(messages), stream=True
        ):
            if chunk.choices and chunk.choices[0].delta.content:
                content = chunk.choices[0].delta.content
                yield ChatAgentChunk(
                    delta=ChatAgentMessage(id=message_id, role="assistant", content=content)
                )


mlflow.models.set_model(EngineAgent())
