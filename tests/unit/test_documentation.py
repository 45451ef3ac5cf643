"""The OpenAPI description says what the routes do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app import errors
from app.engines.phases import Phase
from app.errors import ChatServerError, MethodNotAllowed, RequestCancelled, kind_of
from tests.unit.asgi import JSON_TYPE, ask
from tests.unit.whole_app import ManagedFake, app_before

ANSWER = b'{"choices": [{"index": 0, "message": {"content": "Red."}, "finish_reason": "stop"}]}'
CHUNKS = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "Red."}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
HI = {"role": "user", "content": "Hi"}
CHAT = {"messages": [HI]}


def description(**settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = app_before(ManagedFake(), **settings).openapi()
    return found


def fits(schema: dict[str, Any], value: object) -> bool:
    """Whether a value fits a schema of the description."""
    whole = schema | {"components": description()["components"]}
    return Draft202012Validator(whole).is_valid(value)


def content_of(answer: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    schema: dict[str, Any] = answer["content"][kind]["schema"]
    return schema


@pytest.mark.parametrize(
    ("body", "good"),
    [
        (CHAT, True),
        (CHAT | {"anything": 1}, True),
        ({"messages": []}, False),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, False),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, True),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, False),
        ({"messages": [HI | {"mood": "good"}]}, False),
        (CHAT | {"stream": None}, True),
        (CHAT | {"stream": "yes"}, False),
        (CHAT | {"context": {"user": "u"}}, False),
        (CHAT | {"custom_inputs": None}, True),
        (CHAT | {"custom_inputs": {"stop": "a"}}, True),
        (CHAT | {"custom_inputs": {"stop": ["a", "b"]}}, True),
        (CHAT | {"custom_inputs": {"stop": ""}}, False),
        (CHAT | {"custom_inputs": {"logit_bias": {"17": 1.5}}}, True),
        (CHAT | {"custom_inputs": {"logit_bias": {"the": 1.5}}}, False),
        (CHAT | {"custom_inputs": {"temperature": -1}}, False),
        (CHAT | {"custom_inputs": {"temprature": 1}}, False),
        ({"inputs": CHAT}, True),
        ({"dataframe_records": [CHAT]}, True),
        ({"dataframe_records": [CHAT, CHAT]}, False),
        ({"dataframe_split": {"columns": ["messages"], "data": [[[HI]]]}}, True),
        ({"dataframe_split": {"columns": ["messages"]}}, False),
        ({"inputs": CHAT, "dataframe_records": [CHAT]}, False),
        ([CHAT], False),
    ],
)
async def test_what_fits_is_answered_and_what_does_not_is_refused(body: Any, good: bool) -> None:
    described = description()["paths"]["/invocations"]["post"]
    answer = await ask(
        app_before(ManagedFake(ANSWER)),
        *("/invocations", "POST"),
        headers=JSON_TYPE,
        parts=[json.dumps(body).encode()],
    )
    assert answer.status == (200 if good else 400), answer.body
    assert fits(content_of(described["requestBody"]), body) is good
    assert fits(content_of(described["responses"][str(answer.status)]), answer.json)


def test_an_answer_without_its_parts_does_not_fit() -> None:
    answers = description()["paths"]["/invocations"]["post"]["responses"]
    assert not fits(content_of(answers["200"]), {"messages": []})
    assert not fits(content_of(answers["400"]), {"error": {"message": "No."}})


async def test_events_are_described_one_by_one() -> None:
    answers = description()["paths"]["/invocations"]["post"]["responses"]
    schema = content_of(answers["200"], "text/event-stream")
    _, piece = schema["properties"]["data"]["anyOf"]
    body = json.dumps(CHAT | {"stream": True}).encode()
    answer = await ask(
        app_before(ManagedFake(CHUNKS)), "/invocations", "POST", headers=JSON_TYPE, parts=[body]
    )
    *chunks, end = [line[6:] for line in answer.body.decode().split("\n\n") if line]
    assert chunks
    assert end == schema["properties"]["data"]["anyOf"][0]["const"]
    assert all(fits(piece["contentSchema"], json.loads(chunk)) for chunk in chunks)
    assert fits(piece["contentSchema"], {"error": {"error_code": "X", "message": "No."}})
    assert not fits(piece["contentSchema"], {"error": "No."})


def test_every_error_that_a_question_can_meet_is_there() -> None:
    elsewhere = {kind_of(each).status for each in (MethodNotAllowed, RequestCancelled)}
    met = {
        str(kind_of(value).status)
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, ChatServerError)
        and kind_of(value).status not in elsewhere
    }
    answers = description(api_key="k")["paths"]["/invocations"]["post"]["responses"]
    assert answers.keys() == met | {"200"}


def test_the_key_is_asked_for_where_there_is_one() -> None:
    keyless = description()
    assert "security" not in keyless
    assert "401" not in keyless["paths"]["/metrics"]["get"]["responses"]
    keyed = description(api_key="k")
    (scheme,) = keyed["components"]["securitySchemes"].values()
    assert scheme == {"type": "http", "scheme": "bearer"}
    open_paths = {
        path for path, found in keyed["paths"].items() if found.get("get", {}).get("security") == []
    }
    assert open_paths == {"/ping", "/health", "/health/live", "/health/ready"}
    assert "401" in keyed["paths"]["/metrics"]["get"]["responses"]


@pytest.mark.parametrize("phase", [Phase.READY, Phase.LOADING])
async def test_readiness_fits(phase: Phase) -> None:
    answer = await ask(app_before(ManagedFake(phase=phase)), "/health/ready")
    answers = description()["paths"]["/health/ready"]["get"]["responses"]
    assert fits(content_of(answers[str(answer.status)]), answer.json)
    assert not fits(content_of(answers["200"]), answer.json | {"phase": "asleep"})


def test_parameters_of_paths_are_declared() -> None:
    for path, operations in description()["paths"].items():
        declared = [each["name"] for each in operations.get("get", {}).get("parameters", [])]
        assert declared == (["name"] if "{name}" in path else [])
