"""Tool calls of the real model, in both modes, and the way of their results back to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.asking import Invocations, Reply
from tests.e2e.tools import NAMED, REQUIRED, TOOLS, WEATHER_QUESTION, WEATHER_STOP


def _request(choice: Any, *, stream: bool, **inputs: Any) -> dict[str, Any]:
    chosen = {"temperature": 0, "max_tokens": 80, "tools": TOOLS, "tool_choice": choice}
    return {
        "messages": WEATHER_QUESTION,
        "custom_inputs": chosen | {"stop": WEATHER_STOP} | inputs,
        "stream": stream,
    }


@pytest.fixture(scope="module")
def call(invocations: Invocations) -> dict[str, Any]:
    """A call that the model made."""
    return invocations.ask(_request(REQUIRED, stream=False)).tool_calls[0]


@pytest.mark.parametrize("choice", [REQUIRED, NAMED], ids=["required", "named"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_forced_call(invocations: Invocations, choice: Any, stream: bool) -> None:
    reply = invocations.ask(_request(choice, stream=stream))
    (made,) = reply.tool_calls
    assert made["id"]
    assert made["type"] == "function"
    assert made["function"]["name"] == "get_weather"
    assert json.loads(made["function"]["arguments"]) == {"city": "Paris"}
    assert reply.content == ""
    assert reply.finish_reason == "tool_calls"
    assert reply.usage["completion_tokens"] > 10


@pytest.mark.parametrize("choice", [REQUIRED, NAMED], ids=["required", "named"])
def test_streamed_call_is_the_plain_call(invocations: Invocations, choice: Any) -> None:
    plain = invocations.ask(_request(choice, stream=False))
    streamed = invocations.ask(_request(choice, stream=True))
    assert streamed.comparable == plain.comparable
    assert streamed.tool_calls[0].keys() == plain.tool_calls[0].keys()


def test_ids_of_calls_are_unique(invocations: Invocations, call: dict[str, Any]) -> None:
    others = [invocations.ask(_request(REQUIRED, stream=stream)) for stream in (False, True)]
    ids = [call["id"], *(other.tool_calls[0]["id"] for other in others)]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_result_goes_back(invocations: Invocations, call: dict[str, Any], stream: bool) -> None:
    """As MLflow's clients send it: content null beside the calls, and the function's name."""
    result = {"role": "tool", "tool_call_id": call["id"], "name": "get_weather"}
    reply = _second_turn(invocations, call, result, stream)
    assert reply.content.strip()
    assert reply.tool_calls == []


def test_result_goes_back_without_a_name(invocations: Invocations, call: dict[str, Any]) -> None:
    """As OpenAI's clients send it."""
    result = {"role": "tool", "tool_call_id": call["id"]}
    assert _second_turn(invocations, call, result, stream=False).content.strip()


def test_result_changes_the_prompt(invocations: Invocations, call: dict[str, Any]) -> None:
    """The model gets to see the result: a longer one costs more tokens."""
    result = {"role": "tool", "tool_call_id": call["id"], "name": "get_weather"}
    short = _second_turn(invocations, call, result, stream=False)
    long = _second_turn(invocations, call, result, stream=False, weather="Sunny. " * 20)
    assert long.usage["prompt_tokens"] >= short.usage["prompt_tokens"] + 20


def test_tool_choice_none(invocations: Invocations) -> None:
    reply = invocations.ask(_request("none", stream=False, max_tokens=20))
    assert reply.tool_calls == []
    assert reply.content.strip()


def _second_turn(
    invocations: Invocations,
    call: dict[str, Any],
    result: dict[str, Any],
    stream: bool,
    weather: str = "Sunny.",
) -> Reply:
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    messages = [*WEATHER_QUESTION, asked, {**result, "content": weather}]
    inputs = {"temperature": 0, "max_tokens": 20}
    return invocations.ask({"messages": messages, "custom_inputs": inputs, "stream": stream})
