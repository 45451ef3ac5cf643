"""The validator is itself a test tool, so it has to prove that it refuses what it should."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mlflow_versions import Candidate, Problem, interpreters, validate

OLD, MIDDLE, NEWEST = "2.20.2", "2.22.5", "newest"


def _call(**function: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": function}


def _chunk(**delta: Any) -> Candidate:
    return Candidate("chunk", {"id": "c", "delta": delta})


def _response(*messages: dict[str, Any]) -> Candidate:
    return Candidate("response", {"id": "r", "messages": list(messages)})


GOOD = [
    _response({"role": "assistant", "id": "1", "content": "Paris."}),
    _chunk(role="assistant", id="1", content="Par"),
    _chunk(role="assistant", id="1", content="", tool_calls=[_call(name="f", arguments="{}")]),
]

# What is wrong, the object, and the versions that must refuse it.
BAD = {
    "chunk without role": (_chunk(id="1", content="a"), {OLD, MIDDLE, NEWEST}),
    "chunk without id": (_chunk(role="assistant", content="a"), {MIDDLE, NEWEST}),
    "empty content and no call": (_chunk(role="assistant", id="1", content=""), {OLD, MIDDLE}),
    "content in parts": (
        _chunk(role="assistant", id="1", content=[{"type": "text", "text": "a"}]),
        {OLD, MIDDLE, NEWEST},
    ),
    "fragment of a call without a name": (
        _chunk(role="assistant", id="1", content="", tool_calls=[_call(arguments='{"ci')]),
        {OLD, MIDDLE},
    ),
    "arguments as an object": (
        Candidate(
            "chunk",
            {
                "delta": {
                    "role": "assistant",
                    "id": "1",
                    "content": "",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}
                    ],
                }
            },
        ),
        {OLD, MIDDLE, NEWEST},
    ),
    "message without id": (_response({"role": "assistant", "content": "a"}), {MIDDLE, NEWEST}),
    "the same id twice": (
        _response(
            {"role": "assistant", "id": "1", "content": "a"},
            {"role": "assistant", "id": "1", "content": "b"},
        ),
        {MIDDLE, NEWEST},
    ),
    "response without messages": (Candidate("response", {"id": "r"}), {OLD, MIDDLE, NEWEST}),
}


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return validate([*GOOD, *(candidate for candidate, _ in BAD.values())])


def test_good_objects_pass_in_every_version(problems: list[Problem]) -> None:
    assert [str(each) for each in problems if each.candidate in GOOD] == []


@pytest.mark.parametrize("case", BAD)
def test_bad_objects_are_refused_by_the_versions_that_mind(
    case: str, problems: list[Problem]
) -> None:
    candidate, versions = BAD[case]
    refused = {
        each.version if each.version in (OLD, MIDDLE) else NEWEST
        for each in problems
        if each.candidate is candidate
    }
    assert versions <= refused


def test_three_versions_are_asked() -> None:
    assert set(interpreters()) == {OLD, MIDDLE, NEWEST}
