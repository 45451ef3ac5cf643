"""What requests may look like, and what is said of those that may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from tests.e2e.asking import Invocations
from tests.e2e.prompts import CAPITAL, ENDLESS

CAPITAL_REQUEST = {key: value for key, value in CAPITAL.request().items() if key != "stream"}
COLUMNS = list(CAPITAL_REQUEST)
WRAPPED = {
    "inputs": {"inputs": CAPITAL_REQUEST},
    "inputs with one row": {"inputs": [CAPITAL_REQUEST]},
    "dataframe_records": {"dataframe_records": [CAPITAL_REQUEST]},
    "dataframe_split": {
        "dataframe_split": {"columns": COLUMNS, "data": [[CAPITAL_REQUEST[c] for c in COLUMNS]]}
    },
}
# Parameters that leave this answer alone, so that it can be asserted.
HARMLESS = {
    "top_k": 1,
    "top_p": 0.5,
    "min_p": 0.1,
    "seed": 7,
    "n": 1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "repetition_penalty": 1.01,
    "min_tokens": 1,
    "stop_token_ids": [0],
    "logit_bias": {"5": -1.0},
    "skip_special_tokens": True,
    "max_completion_tokens": 64,
    "chat_template_kwargs": {"enable_thinking": False},
    "extra_body": {"metadata": {"a": "b"}},
}
# What is wrong, and what the answer has to name.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"temprature": 0.5}, "temperature"),
    "type": ({"temperature": "hot"}, "custom_inputs.temperature"),
    "range": ({"top_p": 1.5}, "custom_inputs.top_p"),
    "several answers": ({"n": 2}, "custom_inputs.n"),
    "no tokens": ({"max_tokens": 0}, "custom_inputs.max_tokens"),
    "schema": ({"json_schema": {"type": "nonsense"}}, "json_schema"),
    "regex": ({"regex": "("}, "regex"),
    "two grammars": ({"regex": "a", "json_schema": {}}, "custom_inputs"),
    "tool_choice without tools": ({"tool_choice": "required"}, "tool_choice"),
    "extra_body that is ours": ({"extra_body": {"stream": True}}, "stream"),
}


@pytest.mark.parametrize("form", WRAPPED)
def test_wrapped_forms(invocations: Invocations, form: str) -> None:
    answer = invocations.post(WRAPPED[form])
    assert answer.status_code == 200, answer.text
    predictions = answer.json()["predictions"]
    assert predictions["messages"][0]["content"] == CAPITAL.answer


@pytest.mark.parametrize("name", HARMLESS)
def test_custom_input(invocations: Invocations, name: str) -> None:
    request = CAPITAL.request(**{name: HARMLESS[name]})
    if name == "max_completion_tokens":
        del request["custom_inputs"]["max_tokens"]
    assert invocations.ask(request).content == CAPITAL.answer


def test_min_tokens_and_ignore_eos_have_an_effect(invocations: Invocations) -> None:
    longer = CAPITAL.request(min_tokens=15, max_tokens=15)
    assert invocations.ask(longer).usage["completion_tokens"] == 15
    endless = CAPITAL.request(ignore_eos=True, max_tokens=15)
    assert invocations.ask(endless).finish_reason == "length"


def test_penalty_has_an_effect(invocations: Invocations) -> None:
    punished = invocations.ask(ENDLESS.request(frequency_penalty=2.0))
    assert punished.content != ENDLESS.answer


def test_extra_body_reaches_the_engine(invocations: Invocations) -> None:
    stopped = CAPITAL.request(extra_body={"stop_regex": " of"})
    assert invocations.ask(stopped).content == "The capital"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named(invocations: Invocations, mistake: str, stream: bool) -> None:
    inputs, named = MISTAKES[mistake]
    request = {"messages": CAPITAL.messages, "custom_inputs": inputs, "stream": stream}
    answer = invocations.post(request)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json().keys() == {"error_code", "message"}
    assert answer.json()["error_code"] == "INVALID_PARAMETER_VALUE"
    assert named in answer.json()["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_prompt_that_is_too_long(invocations: Invocations, stream: bool) -> None:
    secret = "swordfish "
    answer = invocations.post(
        {"messages": [{"role": "user", "content": secret * 9000}], "stream": stream}
    )
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/json"
    error = answer.json()
    assert error["error_code"] == "INVALID_PARAMETER_VALUE"
    assert "8192" in error["message"]
    assert "swordfish" not in answer.text


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_parameters_at_the_top_are_warned_of(invocations: Invocations, stream: bool) -> None:
    answer = invocations.post(CAPITAL.request(stream=stream) | {"max_tokens": 1})
    assert "custom_inputs" in answer.headers["X-Warning"]
    assert "max_tokens" in answer.headers["X-Warning"]
    read = invocations.read_stream if stream else invocations.read_plain
    assert read(answer).content == CAPITAL.answer, "it was not ignored"


def test_nothing_to_warn_of(invocations: Invocations) -> None:
    assert "X-Warning" not in invocations.post(CAPITAL.request()).headers


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_request_id_comes_back(invocations: Invocations, stream: bool) -> None:
    headers = {"X-Request-Id": "conversation-1.turn-2"}
    answer = invocations.post(CAPITAL.request(stream=stream), headers=headers)
    assert answer.headers["X-Request-Id"] == "conversation-1.turn-2"


def test_request_id_is_made(invocations: Invocations) -> None:
    ids = [invocations.post(body).headers["X-Request-Id"] for body in ({}, {}, CAPITAL.request())]
    assert len(set(ids)) == 3


def test_context_is_taken(invocations: Invocations) -> None:
    context = {"conversation_id": "c-1", "user_id": "u-1"}
    assert invocations.ask(CAPITAL.request() | {"context": context}).content == CAPITAL.answer


def test_messages_of_every_role(invocations: Invocations) -> None:
    """Two system messages, the same role twice, and an assistant that has the last word."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hello."},
        {"role": "user", "content": "Are you there?", "name": "Ann"},
        {"role": "assistant", "content": "Yes."},
    ]
    reply = invocations.ask({"messages": messages, "custom_inputs": {"max_tokens": 5}})
    assert reply.usage["completion_tokens"] > 0


def test_documentation(url: str) -> None:
    page = requests.get(f"{url}/docs", timeout=10)
    assert page.status_code == 200
    assert "swagger" in page.text
    description = requests.get(f"{url}/openapi.json", timeout=10).json()
    body = description["paths"]["/invocations"]["post"]["requestBody"]
    assert "messages" in json.dumps(body)
    assert {"/invocations", "/health/ready", "/v1/chat/completions"} <= description["paths"].keys()
    schema = description["components"]["schemas"]["CustomInputs"]
    assert {"temperature", "tools", "json_schema"} <= schema["properties"].keys()


def test_example_of_the_documentation_works(invocations: Invocations, url: str) -> None:
    description = requests.get(f"{url}/openapi.json", timeout=10).json()
    body = description["paths"]["/invocations"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"]
    example["custom_inputs"]["max_tokens"] = 10
    assert invocations.ask(example).content


def test_health(url: str) -> None:
    ready = requests.get(f"{url}/health/ready", timeout=10)
    assert (ready.status_code, ready.json()["phase"]) == (200, "ready")
    for path in ("/ping", "/health"):
        assert requests.get(url + path, timeout=10).content == b"\n"
    assert requests.get(f"{url}/health/live", timeout=10).status_code == 200
    assert requests.get(f"{url}/version", timeout=10).text
