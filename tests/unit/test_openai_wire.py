"""Shapes of chat completions of several engines, and what callers are told of their errors."""

import json
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines.openai_wire import (
    completion_events,
    engine_error,
    error_in_event,
    http_error,
    public_reason,
)
from app.errors import (
    ChatServerError,
    EngineFailed,
    EngineUnavailable,
    InvalidRequest,
    NotFound,
    Overloaded,
)
from app.events import Event, Finished, ReasoningDelta, TextDelta, ToolCallDelta, Usage


def events(value: Any) -> list[Event]:
    return completion_events(json.dumps(value).encode())


def delta(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        # SGLang 0.4.6: the role comes again and again, and content may be null beside it.
        (delta(role="assistant", content=""), []),
        (delta(role="assistant", content=None, tool_calls=None, reasoning_content=None), []),
        (delta(content="a\u2028", reasoning_content=""), [TextDelta("a\u2028")]),
        (delta("stop", content=None), [Finished("stop")]),
        (
            delta("stop", content="") | {"usage": {"prompt_tokens": 1, "total_tokens": 1}},
            [Finished("stop"), Usage(1, 0, 1)],
        ),
        (
            delta(tool_calls=[{"id": None, "index": 0, "function": {"name": None}}]),
            [ToolCallDelta(None, None, "")],
        ),
        # SGLang 0.5: usage by itself, with cached tokens.
        (
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 3,
                    "completion_tokens": 2,
                    "total_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 1},
                    "reasoning_tokens": 0,
                },
            },
            [Usage(3, 2, 5, 1)],
        ),
        (delta(reasoning_content="hm", content=None), [ReasoningDelta("hm")]),
        ({"choices": [], "usage": None, "error": None}, []),
        # vLLM: its newer name for reasoning, and keys of its own.
        (
            delta(reasoning="hm", content="") | {"prompt_token_ids": None},
            [ReasoningDelta("hm")],
        ),
        (
            {"choices": [{"message": {"content": "a", "refusal": None}, "finish_reason": "stop"}]},
            [TextDelta("a"), Finished("stop")],
        ),
        (
            delta(tool_calls=[{"function": {"arguments": '{"a'}}, {"id": "c"}]),
            [ToolCallDelta(None, None, '{"a'), ToolCallDelta("c", None, "")],
        ),
    ],
)
def test_shapes_of_several_engines(chunk: Any, expected: list[Event]) -> None:
    assert events(chunk) == expected


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_what_is_no_completion_is_a_fault_of_the_engine(data: bytes) -> None:
    with pytest.raises(EngineFailed):
        completion_events(data)


def test_an_error_in_place_of_a_chunk() -> None:
    error = {"error": {"message": "top_p must be in (0, 1], got 3.", "code": 400}}
    with pytest.raises(InvalidRequest, match="top_p"):
        events(error)
    assert isinstance(error_in_event(json.dumps(error).encode()), InvalidRequest)
    assert error_in_event(b'{"choices": [], "error": null}') is None
    assert error_in_event(b"not json") is None
    coded = {"error": {"message": "x", "code": "invalid_value"}}
    assert isinstance(error_in_event(json.dumps(coded).encode()), EngineFailed)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *[(400, InvalidRequest), (413, InvalidRequest), (422, InvalidRequest), (404, NotFound)],
        *[(429, Overloaded), (502, EngineUnavailable), (503, EngineUnavailable)],
        *[(504, EngineUnavailable), (500, EngineFailed), (418, EngineFailed), (302, EngineFailed)],
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"secret",
        b'{"message": "secret"}',
        b'{"error": {"message": "secret"}}',
        b'{"error": 1}',
    ],
)
def test_statuses_of_the_engine(status: int, kind: type[ChatServerError], body: bytes) -> None:
    error = http_error(status, body)
    assert type(error) is kind
    assert error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), (None, None), ("Wed, 21 Oct 2026", None), ("²", None)]
)
def test_retry_after_is_passed_on(header: str | None, seconds: int | None) -> None:
    assert http_error(429, b"", header).retry_after == seconds


def test_an_abort_is_no_mistake_of_the_caller() -> None:
    assert isinstance(engine_error(400, "Input should be 'stop', got 'abort'"), EngineFailed)


USEFUL = [
    "temperature must be non-negative, got -1.0.",
    "temperature must be a non-negative finite number, got -1.0.",
    "top_p must be in (0, 1], got 3.",
    "top_k must be -1 (disable) or at least 1, got -5.",
    "max_new_tokens must be at least 0, got -1.",
    "min_new_tokens must be in [0, max_new_tokens(5)], got 6.",
    "frequency_penalty must be in [-2, 2], got 1e+20.",
    "max_tokens must be positive",
    "The input (9031 tokens) is longer than the model's context length (8192 tokens).",
    "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested"
    " a total of 9031 tokens: 31 tokens from the input messages and 9000 tokens for the completion."
    " Please reduce the number of tokens in the input messages or the completion to fit within the"
    " limit.",
]


@pytest.mark.parametrize("message", USEFUL)
def test_what_helps_the_caller_is_passed_on(message: str) -> None:
    assert public_reason(message) == message
    assert engine_error(400, message).message == message


words = st.sampled_from(re.findall(r"[\w']+", " ".join(USEFUL)))


@given(st.lists(st.text(string.ascii_letters + " /._\n", min_size=4) | words), words)
def test_nothing_of_a_callers_text_gets_through(parts: list[str], parameter: str) -> None:
    """Built from the words of the useful messages, with a secret, a path and a trace in it."""
    secrets = ["Hunter", "/root/model", 'File "x.py"', "hunter"]
    for secret in secrets:
        for message in (
            f"{parameter} must be {' '.join(parts)} {secret}",
            f"{secret} must be positive, got 1.",
            f"{parameter} must be positive, got {secret}",
            f"top_p must be in (0, 1], got 3. {secret}",
            f"{' '.join(parts)} {secret}",
        ):
            assert secret not in (public_reason(message) or "")
            assert secret not in engine_error(400, message).message
