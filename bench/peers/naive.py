"""The gateway that most people would write: FastAPI, AsyncOpenAI, pydantic models in and out."""

import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from pydantic import BaseModel, model_validator

MODEL = os.environ["BENCH_MODEL"]
USAGE = {"prompt_tokens", "completion_tokens", "total_tokens"}
client = AsyncOpenAI(base_url=os.environ["BENCH_ENGINE"], api_key="none")
app = FastAPI()


class Function(BaseModel):
    """The function of a tool call."""

    name: str
    arguments: str


class ToolCall(BaseModel):
    """A tool call."""

    id: str
    type: str = "function"
    function: Function


class ChatAgentMessage(BaseModel):
    """A message, in or out."""

    role: str
    content: str | None = None
    name: str | None = None
    id: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    attachments: dict[str, str] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "ChatAgentMessage":
        if self.content is None and self.tool_calls is None:
            raise ValueError("either content or tool_calls must be given")
        return self


class Usage(BaseModel):
    """Counts of tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


class ChatAgentRequest(BaseModel):
    """What callers send."""

    messages: list[ChatAgentMessage]
    context: dict[str, Any] | None = None
    custom_inputs: dict[str, Any] | None = None
    stream: bool | None = False


class ChatAgentResponse(BaseModel):
    """A whole answer."""

    messages: list[ChatAgentMessage]
    finish_reason: str | None = None
    custom_outputs: dict[str, Any] | None = None
    usage: Usage | None = None


class ChatAgentChunk(BaseModel):
    """A piece of a streamed answer."""

    delta: ChatAgentMessage
    finish_reason: str | None = None
    custom_outputs: dict[str, Any] | None = None
    usage: Usage | None = None


async def relay(messages: list[Any]) -> AsyncIterator[str]:
    """The engine's chunks as events of ours."""
    stream = await client.chat.completions.create(
        model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        choice = chunk.choices[0] if chunk.choices else None
        content = (choice.delta.content if choice else None) or ""
        out = ChatAgentChunk(
            delta=ChatAgentMessage(role="assistant", id=chunk.id, content=content),
            finish_reason=choice.finish_reason if choice else None,
            usage=Usage(**chunk.usage.model_dump(include=USAGE)) if chunk.usage else None,
        )
        yield f"data: {out.model_dump_json(exclude_none=True)}\n\n"


@app.post("/invocations")
async def invocations(request: ChatAgentRequest) -> Any:
    """Plain and streamed answers."""
    fields = {"role", "content", "tool_calls", "tool_call_id", "name"}
    messages: list[Any] = [
        message.model_dump(include=fields, exclude_none=True) for message in request.messages
    ]
    if request.stream:
        return StreamingResponse(relay(messages), media_type="text/event-stream")
    answer = await client.chat.completions.create(model=MODEL, messages=messages)
    choice = answer.choices[0]
    return ChatAgentResponse(
        messages=[ChatAgentMessage(role="assistant", id=answer.id, content=choice.message.content)],
        finish_reason=choice.finish_reason,
        usage=Usage(**answer.usage.model_dump(include=USAGE)) if answer.usage else None,
    ).model_dump(exclude_none=True)
