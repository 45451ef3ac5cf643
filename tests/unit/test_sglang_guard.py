"""Requests that were seen to end SGLang 0.5.23 do not reach an engine."""

from typing import Any

import pytest

from app.engines.base import EngineInfo
from app.errors import InvalidRequest
from app.runtime import build_admission
from app.service import ChatService
from app.settings import Settings
from app.sglang_guard import check_survivable

SGLANG = EngineInfo("sglang", ("m",), "0.5.23")
OTHER = EngineInfo("openai", ("m",))

FATAL: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 2**31}, "top_k"),
    ({"top_k": 1e12}, "top_k"),
    ({"top_k": "1099511627776"}, "top_k"),
    ({"n": 100_000}, "n"),
    ({"logprobs": 10**6}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 10**6}, "top_logprobs"),
    ({"stop_token_ids": [-1], "min_tokens": 2}, "stop_token_ids"),
    ({"stop_token_ids": [10**8], "min_tokens": 2}, "stop_token_ids"),
    ({"input_ids": [10**8]}, "input_ids"),
    ({"prompt": [10**8]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [[10**8]]}, "prompt"),
    ({"prompt": ["text", 5]}, "prompt"),
]
HARMLESS: list[dict[str, Any]] = [
    {},
    {"top_k": -1, "n": 1, "logprobs": True, "top_logprobs": 20},
    {"top_k": None, "n": None, "logprobs": None, "stop_token_ids": None, "input_ids": None},
    {"top_k": 2**31 - 1, "logprobs": 5},
    {"stop_token_ids": [1]},
    {"min_tokens": 2},
    {"stop_token_ids": [1], "min_tokens": 0},
    {"prompt": "text"},
    {"prompt": ["text", "日本"]},
]


@pytest.mark.parametrize(("fields", "name"), FATAL)
def test_fatal_requests_are_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_survivable(fields, SGLANG, "custom_inputs.")
    assert caught.value.field == f"custom_inputs.{name}"
    check_survivable(fields, OTHER)


@pytest.mark.parametrize("fields", HARMLESS)
def test_others_pass(fields: dict[str, Any]) -> None:
    check_survivable(fields, SGLANG)


@pytest.mark.parametrize(
    "inputs",
    [{"stop_token_ids": [10**8], "min_tokens": 2}, {"extra_body": {"input_ids": [10**8]}}],
)
def test_the_chat_agents_way_is_guarded_too(inputs: dict[str, Any]) -> None:
    engine: Any = type("Engine", (), {"info": SGLANG})
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hi"}],
        "custom_inputs": inputs,
    }
    service = ChatService(engine, build_admission(Settings()), max_messages=10)
    with pytest.raises(InvalidRequest):
        service.prepare(body)
