"""MLflow's AgentServer with a ResponsesAgent, the type that it validates, over the async client."""

import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import mlflow
from mlflow.genai.agent_server import AgentServer, invoke, stream
from mlflow.types.responses import (
    ResponsesAgentRequest,
    ResponsesAgentResponse,
    ResponsesAgentStreamEvent,
    create_text_delta,
    create_text_output_item,
)
from openai import AsyncOpenAI

MODEL = os.environ["BENCH_MODEL"]
client = AsyncOpenAI(base_url=os.environ["BENCH_ENGINE"], api_key="none")

if os.environ.get("BENCH_TRACING") == "off":
    mlflow.tracing.disable()
else:
    mlflow.set_experiment("bench")


def messages_of(request: ResponsesAgentRequest) -> list[Any]:
    """The request's messages in OpenAI's form."""
    return [{"role": item.role, "content": item.content} for item in request.input]


@invoke()
async def answer(request: ResponsesAgentRequest) -> ResponsesAgentResponse:
    """A whole answer."""
    out = await client.chat.completions.create(model=MODEL, messages=messages_of(request))
    return ResponsesAgentResponse(
        output=[create_text_output_item(text=out.choices[0].message.content, id=out.id)],
        usage={
            "input_tokens": out.usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": out.usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": out.usage.total_tokens,
        },
    )


@stream()
async def answer_stream(
    request: ResponsesAgentRequest,
) -> AsyncIterator[ResponsesAgentStreamEvent]:
    """A streamed answer, and the item that MLflow wants at its end."""
    item_id, text = str(uuid.uuid4()), []
    chunks = await client.chat.completions.create(
        model=MODEL, messages=messages_of(request), stream=True
    )
    async for chunk in chunks:
        if chunk.choices and chunk.choices[0].delta.content:
            text.append(chunk.choices[0].delta.content)
            yield ResponsesAgentStreamEvent(**create_text_delta(text[-1], item_id))
    yield ResponsesAgentStreamEvent(
        type="response.output_item.done",
        item=create_text_output_item(text="".join(text), id=item_id),
    )


app = AgentServer("ResponsesAgent").app
