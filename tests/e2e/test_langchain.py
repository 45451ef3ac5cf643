"""LangChain's ChatOpenAI against ``/v1``, as the README shows it."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI

from tests.e2e.prompts import CAPITAL
from tests.e2e.tools import TOOLS, WEATHER_QUESTION, WEATHER_STOP

MODEL = "smollm2-135m-instruct"


@pytest.fixture
def model(url: str) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{url}/v1", api_key="none", model=MODEL, temperature=0, max_tokens=80
    )


def test_invoke(model: ChatOpenAI) -> None:
    answer = model.invoke(CAPITAL.messages)
    assert answer.content == CAPITAL.answer
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0


def test_stream(model: ChatOpenAI) -> None:
    pieces = [chunk.content for chunk in model.stream(CAPITAL.messages)]
    assert "".join(map(str, pieces)) == CAPITAL.answer
    assert len(pieces) > 3


async def test_message_objects(model: ChatOpenAI) -> None:
    kinds = {"user": HumanMessage, "assistant": AIMessage}
    messages = [kinds[each["role"]](each["content"]) for each in CAPITAL.messages]
    assert (await model.ainvoke(messages)).content == CAPITAL.answer


def test_tools(model: ChatOpenAI) -> None:
    bound = model.bind_tools(TOOLS, tool_choice="get_weather").bind(stop=WEATHER_STOP)
    answer = bound.invoke(WEATHER_QUESTION)
    (call,) = answer.tool_calls
    assert call["name"] == "get_weather"
    assert json.dumps(call["args"]) == '{"city": "Paris"}'
