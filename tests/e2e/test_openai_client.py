"""OpenAI's own client against ``/v1``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.prompts import CAPITAL, ENDLESS, QUESTIONS, SCHEMA
from tests.e2e.tools import REQUIRED, TOOLS, WEATHER_QUESTION, WEATHER_STOP

MODEL = "smollm2-135m-instruct"
TOO_LONG = [{"role": "user", "content": "word " * 9000}]


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=CAPITAL.messages, temperature=0, max_tokens=20
    )
    assert answer.choices[0].message.content == CAPITAL.answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streamed_chat_with_usage(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=CAPITAL.messages,
        temperature=0,
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == CAPITAL.answer
    assert chunks[-1].usage.completion_tokens > 0
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


async def test_asynchronous_client(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=CAPITAL.messages, temperature=0, max_tokens=20, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == CAPITAL.answer
    assert len(pieces) > 3


def test_json_schema(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=QUESTIONS["json_schema"].messages,
        temperature=0,
        max_tokens=60,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
        },
    )
    assert json.loads(answer.choices[0].message.content) == {"city": "Tokyo", "country": "Japan"}


def test_required_tool(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=WEATHER_QUESTION,
        temperature=0,
        max_tokens=80,
        stop=WEATHER_STOP,
        tools=TOOLS,
        tool_choice=REQUIRED,
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    assert answer.choices[0].finish_reason == "tool_calls"


def test_streamed_required_tool(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=WEATHER_QUESTION,
        temperature=0,
        max_tokens=80,
        stop=WEATHER_STOP,
        tools=TOOLS,
        tool_choice=REQUIRED,
        stream=True,
    )
    parts = [
        call
        for chunk in stream
        if chunk.choices
        for call in chunk.choices[0].delta.tool_calls or []
    ]
    assert [part.function.name for part in parts if part.function.name] == ["get_weather"]
    arguments = "".join(part.function.arguments or "" for part in parts)
    assert json.loads(arguments) == {"city": "Paris"}


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="1, 2, 3, 4, 5, 6,", temperature=0, max_tokens=6
    )
    assert answer.choices[0].text.startswith(" 7, 8,")
    stream = client.completions.create(
        model=MODEL, prompt="1, 2, 3, 4, 5, 6,", temperature=0, max_tokens=6, stream=True
    )
    assert "".join(part.choices[0].text for part in stream) == answer.choices[0].text


def test_unknown_model(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="gpt-4", messages=CAPITAL.messages)


@pytest.mark.parametrize("stream", [False, True])
def test_prompt_that_is_too_long(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=TOO_LONG, stream=stream)
    assert "longer than" in str(caught.value) or "maximum context length" in str(caught.value)


@pytest.mark.parametrize("stream", [False, True])
def test_parameter_out_of_range(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(
            model=MODEL, messages=CAPITAL.messages, temperature=-1, stream=stream
        )


def test_unknown_route(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.images.generate(model=MODEL, prompt="a cat")


def test_stream_can_be_left_early(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL,
        messages=ENDLESS.messages,
        max_tokens=500,
        stream=True,
        extra_body={"ignore_eos": True},
    ) as stream:
        assert next(iter(stream)).choices
    assert client.models.list().data
