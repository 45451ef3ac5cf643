"""The requests that were sent to ``mlflow models serve``: ours must answer as MLflow does.

MLflow's own status (of 3.18.0) is the rule. ``OURS`` and ``OUR_CODES`` are all the exceptions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.contract.gateway import new_client
from tests.contract.outcome import Outcome
from tests.mlflow_versions import validate

RECORDED = Path(__file__).parents[1] / "data" / "mlflow_invocations.json"
CASES = {case["case"]: case for case in json.loads(RECORDED.read_text(encoding="utf-8"))}
NEWEST = "3.18.0"

# Statuses that differ from MLflow's, and why.
OURS = {
    "ct_missing": (200, "MLflow has an unhandled error here (500); the body is plainly JSON"),
    "head_ping": (200, "2.20.2 and 2.22.5 answer 200, and load balancers probe with HEAD"),
    "context_null": (200, "MLflow's wrapper trips over null (400); clients send it for 'none'"),
    "message_content_parts": (200, "text parts are what OpenAI clients send: they are joined"),
    "get_root": (200, "the playground is here; with PLAYGROUND=false it is MLflow's 404"),
    "chat_completions_path": (400, "the route is here, and in OpenAI's API a model is required"),
    "message_unknown_role": (400, "the engine answers 500 for a role it doesn't know"),
    "ok_full": (400, "its custom_inputs 'x' and 'y' mean nothing here; silence would hide typos"),
    "wrapped_dataframe_records_two": (400, "MLflow answers the first row and drops the second"),
}

# Error codes that differ from MLflow's. Its pydantic rules fail as "an unexpected error while
# evaluating the model" (BAD_REQUEST); ours name the field, like every other broken rule.
OUR_CODES = {
    "message_no_content": "INVALID_PARAMETER_VALUE",
    "tool_missing_tool_call_id": "INVALID_PARAMETER_VALUE",
    "message_unknown_role": "INVALID_PARAMETER_VALUE",
    "ok_full": "INVALID_PARAMETER_VALUE",
    "wrapped_dataframe_records_two": "BAD_REQUEST",
}

INVOCATIONS = [name for name, case in CASES.items() if case["path"] == "/invocations"]
WRAPPED = {"wrapped_inputs", "wrapped_dataframe_records"}


def status_of(name: str) -> int:
    """The status that ours must give."""
    return OURS[name][0] if name in OURS else int(CASES[name]["mlflow"][NEWEST]["status"])


GOOD = [name for name in INVOCATIONS if status_of(name) == 200]
BAD = [name for name in INVOCATIONS if status_of(name) in (400, 415)]

module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    # aiohttp must not add a content type of its own: one case is about having none.
    async with new_client(skip_auto_headers=["Content-Type"]) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(gateway: str, client: aiohttp.ClientSession) -> dict[str, Outcome]:
    """What each recorded request got."""
    found = {}
    for name, case in CASES.items():
        data = case["body"].encode() if case["method"] == "POST" else None
        async with client.request(
            case["method"], gateway + case["path"], data=data, headers=case["headers"]
        ) as answer:
            headers = {key.lower(): value for key, value in answer.headers.items()}
            found[name] = Outcome(answer.status, headers, await answer.read())
    return found


@pytest.mark.parametrize("name", CASES)
def test_status(name: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[name].status == status_of(name), outcomes[name].body


@pytest.mark.parametrize("name", ["get_ping", "get_health", "get_version", "get_docs"])
def test_operations_look_like_mlflows(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome.headers["content-type"] == CASES[name]["mlflow"][NEWEST]["content_type"]
    if name in ("get_ping", "get_health"):
        assert outcome.body == b"\n"
    if name == "get_version":
        # MLflow answers the bare version, which is no JSON although the content type says so.
        assert outcome.body.decode().count(".") >= 2
        assert b'"' not in outcome.body


@pytest.mark.parametrize("name", GOOD)
def test_good_requests_get_a_chat_agent_answer(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    if name.startswith("stream_true"):
        # MLflow's open server has no streams at all; these are what it lacks.
        assert outcome.streamed
        assert outcome.content == "Hello! How can I assist you today?"
        return
    assert outcome.headers["content-type"] == "application/json"
    answer = outcome.json["predictions"] if name in WRAPPED else outcome.json
    assert [message["content"] for message in answer["messages"]] == [
        "Hello! How can I assist you today?"
    ]


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_mlflows_error_code(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome.headers["content-type"] == "application/json"
    assert set(outcome.json) == {"error_code", "message"}
    recorded = CASES[name]["mlflow"][NEWEST]["error"] or {}
    # For a wrong content type MLflow answers in plain text, without a code.
    code = OUR_CODES.get(name) or recorded.get("error_code") or "BAD_REQUEST"
    assert outcome.json["error_code"] == code
    assert 10 < len(outcome.json["message"]) < 1000


def test_good_answers_are_valid_in_every_mlflow_version(outcomes: dict[str, Outcome]) -> None:
    plain = [name for name in GOOD if name not in WRAPPED]
    candidates = [each for name in plain for each in outcomes[name].candidates(name)]
    assert [str(problem) for problem in validate(candidates)] == []


def test_unknown_role_names_the_message_and_the_roles(outcomes: dict[str, Outcome]) -> None:
    message = outcomes["message_unknown_role"].json["message"]
    assert "messages[0].role" in message
    for role in ("system", "user", "assistant", "tool"):
        assert role in message


def test_the_exceptions_are_exceptions() -> None:
    assert OURS.keys() | OUR_CODES.keys() <= CASES.keys()
    for name, (status, _) in OURS.items():
        assert status != CASES[name]["mlflow"][NEWEST]["status"]
    for name, code in OUR_CODES.items():
        assert code != (CASES[name]["mlflow"][NEWEST]["error"] or {}).get("error_code")


@module_loop
async def test_ok_full_with_parameters_that_exist(
    gateway: str, client: aiohttp.ClientSession
) -> None:
    body = json.loads(CASES["ok_full"]["body"]) | {"custom_inputs": {"temperature": 0.5}}
    async with client.post(gateway + "/invocations", json=body) as answer:
        assert answer.status == 200


@module_loop
async def test_tool_message_without_a_name(gateway: str, client: aiohttp.ClientSession) -> None:
    """MLflow refuses it; ours finds the name in the conversation, if it is there."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]
    for last, status in (("c1", 200), ("another", 400)):
        turns[-1]["tool_call_id"] = last
        async with client.post(gateway + "/invocations", json={"messages": turns}) as answer:
            assert answer.status == status


SECRET = "s3cret-東京"


@module_loop
@pytest.mark.parametrize(
    "body",
    [
        {"messages": SECRET},
        {"messages": [SECRET]},
        {"messages": [{"role": SECRET, "content": "hi"}]},
        {"messages": [{"role": "user", "content": {"text": SECRET}}]},
        {"messages": [{"role": "user", "content": [{"type": SECRET}]}]},
        {"messages": [{"role": "user", "content": SECRET, "foo": SECRET}]},
        {"messages": [{"role": "user", "content": SECRET}], "context": SECRET},
        {"messages": [{"role": "user", "content": SECRET}], "stream": SECRET},
        {"messages": [{"role": "user", "content": SECRET}], "custom_inputs": SECRET},
        {"messages": [{"role": "user", "content": SECRET}], "custom_inputs": {"top_p": SECRET}},
        {
            "messages": [{"role": "user", "content": SECRET}],
            "custom_inputs": {"regex": SECRET + "("},
        },
        {"messages": [{"role": "tool", "content": SECRET, "tool_call_id": SECRET}]},
        {"inputs": SECRET},
        {"dataframe_records": [SECRET]},
        {"dataframe_split": {"columns": [SECRET], "data": [[SECRET]]}},
        {"prompt": SECRET},
        [SECRET],
        SECRET,
    ],
    ids=lambda body: json.dumps(body).replace(json.dumps(SECRET), "SECRET")[:80],
)
async def test_errors_never_echo_the_caller(
    body: Any, gateway: str, client: aiohttp.ClientSession
) -> None:
    async with client.post(gateway + "/invocations", json=body) as answer:
        text = await answer.text()
        assert answer.status == 400
        assert set(json.loads(text)) == {"error_code", "message"}
        for form in (SECRET, json.dumps(SECRET)[1:-1], "s3cret"):
            assert form not in text
            assert form not in str(answer.headers)
