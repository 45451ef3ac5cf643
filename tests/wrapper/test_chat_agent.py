"""The logged ChatAgent answers what the gateway answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import ROOT, Sandbox, wait_until
from tests.wrapper.scoring import Scoring

MESSAGES = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"temperature": 0, "max_tokens": 24}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TOOL_CALL = {
    "messages": [
        {
            "role": "system",
            "content": "You call tools. Example: <tool_call>\n"
            '{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
        },
        {"role": "user", "content": "What is the weather in Paris?"},
    ],
    "custom_inputs": {
        "temperature": 0,
        "max_tokens": 200,
        "stop": ["\n\n"],
        "tools": [WEATHER],
        "tool_choice": "required",
    },
}
REQUESTS = {
    "plain": {"messages": MESSAGES, "custom_inputs": GREEDY},
    "cut at once": {"messages": MESSAGES, "custom_inputs": {"temperature": 0, "max_tokens": 1}},
    "tool call": TOOL_CALL,
    "pattern": {
        "messages": MESSAGES,
        "custom_inputs": {**GREEDY, "regex": "(red|green), (blue|yellow)"},
    },
    "context": {
        "messages": MESSAGES,
        "context": {"conversation_id": "c-1", "user_id": "u-1"},
        "custom_inputs": GREEDY,
    },
}


def without_ids(value: Any) -> Any:
    """The same without what differs from request to request: ids, and what came from the cache."""
    if isinstance(value, dict):
        dropped = ("id", "prompt_tokens_details")
        return {key: without_ids(each) for key, each in value.items() if key not in dropped}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


def joined(chunks: list[Any]) -> str:
    return "".join(chunk["delta"]["content"] for chunk in chunks)


def test_the_code_comes_from_the_model(agent: LoadedModel, sandbox: Sandbox) -> None:
    code = Path(agent.facts["code"])
    assert code.is_relative_to(sandbox.folder)
    assert not code.is_relative_to(ROOT)


@pytest.mark.parametrize("name", REQUESTS)
def test_predict_is_the_gateways_answer(name: str, agent: LoadedModel, gateway: str) -> None:
    request = REQUESTS[name]
    theirs = requests.post(f"{gateway}/invocations", json=request, timeout=60).json()
    ours = agent.predict(**request)
    assert without_ids(ours) == without_ids(theirs)
    assert ours["messages"][0]["id"]


@pytest.mark.parametrize("name", REQUESTS)
def test_stream_is_the_plain_answer(name: str, agent: LoadedModel) -> None:
    request = REQUESTS[name]
    plain = agent.predict(**request)
    chunks = agent.stream(**request)
    (message,) = plain["messages"]
    assert joined(chunks) == message["content"]
    assert chunks[-1]["finish_reason"] == plain["finish_reason"]
    assert without_ids(chunks[-1]["usage"]) == without_ids(plain["usage"])
    assert without_ids(chunks[-1]["delta"].get("tool_calls")) == without_ids(
        message.get("tool_calls")
    )
    assert len({chunk["delta"]["id"] for chunk in chunks}) == 1
    assert all("finish_reason" not in chunk for chunk in chunks[:-1])


def test_the_tool_call_is_one(agent: LoadedModel) -> None:
    answer = agent.predict(**TOOL_CALL)
    (call,) = answer["messages"][0]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert "city" in call["function"]["arguments"]
    assert answer["finish_reason"] == "tool_calls"


BAD = {
    "unknown parameter": ({"temperatur": 1}, "temperatur"),
    "out of range": ({"temperature": -1}, "temperature"),
    "two answers": ({"n": 2}, "custom_inputs.n"),
}


@pytest.mark.parametrize("method", ["predict", "stream"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_an_mlflow_error(name: str, method: str, agent: LoadedModel) -> None:
    inputs, named = BAD[name]
    error = agent.refused(method, messages=MESSAGES, custom_inputs=inputs)
    assert (error["error"], error["status"]) == ("INVALID_PARAMETER_VALUE", 400)
    assert named in error["message"]


def test_a_closed_stream_is_aborted_in_the_engine(agent: LoadedModel, sandbox: Sandbox) -> None:
    engine = sandbox.engine_url()
    request = {"messages": MESSAGES, "custom_inputs": {"max_tokens": 400, "ignore_eos": True}}
    before = metric(engine, "generation_tokens_total")
    answer = agent.ask("close", request, after=3)
    assert len(answer["chunks"]) == 3
    wait_until(lambda: metric(engine, "num_running_reqs") == 0, "idle engine", within=5)
    assert metric(engine, "generation_tokens_total") - before < 300


def test_beyond_its_limit_it_sends_callers_away(
    sandbox: Sandbox, logged: dict[str, dict[str, Any]], scoring: Scoring
) -> None:
    limits = {"MAX_CONCURRENT_REQUESTS": "1", "MAX_QUEUED_REQUESTS": "0"}
    with LoadedModel(sandbox, logged["chat-agent"]["model_uri"], **limits) as model:
        seen = model.ask("overload", {"messages": MESSAGES, "custom_inputs": GREEDY})
        assert seen["refused"]["error"] == "REQUEST_LIMIT_EXCEEDED"
        assert "Try again in" in seen["refused"]["message"]
        assert seen["chunks"][-1]["usage"]["completion_tokens"] == GREEDY["max_tokens"]
        assert model.predict(messages=MESSAGES, custom_inputs=GREEDY)["messages"]


def metric(engine: str, name: str) -> float:
    text = requests.get(f"{engine}/metrics", timeout=10).text
    values = re.findall(rf"^sglang:{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    assert values, f"no metric {name}"
    return sum(map(float, values))
