"""Requests that a given engine would answer as if they were others."""

from typing import Any

import pytest

from app.engines.base import EngineInfo
from app.errors import InvalidRequest
from app.schemas.sampling import CustomInputs
from app.schemas.validation import parse
from app.sglang_quirks import check_supported, check_template_kwargs, mend_openai_messages

TOOLS: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "f"}}]}
CONSTRAINED: list[dict[str, Any]] = [
    {"regex": "a"},
    {"ebnf": 'root ::= "a"'},
    {"json_schema": {"type": "object"}},
    {"response_format": {"type": "json_object"}},
    TOOLS | {"tool_choice": "required"},
    TOOLS | {"tool_choice": {"type": "function", "function": {"name": "f"}}},
]
FREE: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"response_format": {"type": "text"}},
    TOOLS,
    TOOLS | {"tool_choice": "auto"},
    TOOLS | {"tool_choice": "none"},
]


def info(version: str | None = "0.4.6.post5", **more: Any) -> EngineInfo:
    facts = {"kind": "sglang", "models": ("m",), "tool_call_parser": "qwen25"} | more
    return EngineInfo(version=version, **facts)


def warnings(inputs: dict[str, Any], engine: EngineInfo) -> list[str]:
    return check_supported(parse(CustomInputs, inputs), engine)


@pytest.mark.parametrize("inputs", CONSTRAINED)
def test_grammars_are_refused_where_the_reasoning_parser_switches_them_off(
    inputs: dict[str, Any],
) -> None:
    with pytest.raises(InvalidRequest, match="REASONING_PARSER=none"):
        warnings(inputs, info(reasoning_parser="qwen3"))
    assert warnings(inputs, info()) == []
    assert warnings(inputs, info("0.5.23", reasoning_parser="qwen3")) == []


@pytest.mark.parametrize("inputs", FREE)
def test_free_text_is_fine_with_a_reasoning_parser(inputs: dict[str, Any]) -> None:
    assert warnings(inputs, info(reasoning_parser="qwen3")) == []


COLLIDING = ["messages", "conversation", "tools", "tokenize", "add_generation_prompt"]
COLLIDING += ["continue_final_message", "return_dict", "return_tensors"]


@pytest.mark.parametrize("name", COLLIDING)
@pytest.mark.parametrize("version", ["0.4.6.post5", "0.5.23"])
def test_arguments_of_the_templates_call_are_refused_by_name(name: str, version: str) -> None:
    kwargs = {"chat_template_kwargs": {"enable_thinking": False, name: True}}
    with pytest.raises(InvalidRequest, match=f"'{name}'") as caught:
        warnings(kwargs, info(version))
    assert caught.value.field == f"custom_inputs.chat_template_kwargs.{name}"
    assert warnings(kwargs, info(None, kind="openai")) == []


def test_a_template_of_the_callers_own_is_refused_where_the_engine_would_run_it() -> None:
    kwargs = {"chat_template": "{% for i in range(99999999) %}{% endfor %}"}
    with pytest.raises(InvalidRequest, match="'chat_template'"):
        check_template_kwargs(kwargs, info())
    check_template_kwargs(kwargs, info("0.5.23"))  # which decides by a switch of its own


@pytest.mark.parametrize("kwargs", [5, "enable_thinking", ["messages"], True])
def test_template_kwargs_must_be_an_object(kwargs: object) -> None:
    with pytest.raises(InvalidRequest, match="'chat_template_kwargs' must be an object"):
        check_template_kwargs(kwargs, info())


@pytest.mark.parametrize(
    "kwargs", [None, {}, {"enable_thinking": False}, {"documents": [{"text": "x"}]}]
)
def test_variables_of_the_template_pass(kwargs: object) -> None:
    check_template_kwargs(kwargs, info())
    check_template_kwargs(kwargs, info("0.5.23"))


def test_tools_need_a_parser() -> None:
    engine = info(tool_call_parser=None)
    with pytest.raises(InvalidRequest, match="TOOL_CALL_PARSER"):
        warnings(TOOLS, engine)
    assert warnings(TOOLS | {"tool_choice": "none"}, engine) == []
    assert warnings({}, engine) == []


def test_a_seed_without_effect_is_warned_of() -> None:
    (warning,) = warnings({"seed": 0}, info())
    assert "seed" in warning
    assert warning.isascii(), "it goes into a header"
    assert warnings({"seed": 0}, info(deterministic=True)) == []


@pytest.mark.parametrize("inputs", [*CONSTRAINED, *FREE, {"seed": 1}])
def test_other_engines_judge_for_themselves(inputs: dict[str, Any]) -> None:
    engine = info(None, kind="openai", tool_call_parser=None, reasoning_parser="x")
    assert warnings(inputs, engine) == []


USER: dict[str, Any] = {"role": "user", "content": "hi"}
BAD: list[tuple[Any, str]] = [
    (None, "messages"),
    ([], "messages"),
    ("hi", "messages"),
    ({"role": "user"}, "messages"),
    (["hi"], "messages[0].role"),
    ([None], "messages[0].role"),
    ([USER, {"content": "x"}], "messages[1].role"),
    ([{"role": ["user"], "content": "x"}], "messages[0].role"),
    ([{"role": "function", "content": "x"}], "messages[0].role"),
    ([USER, {"role": "user", "content": None}], "messages[1].content"),
    ([{"role": "tool", "tool_call_id": "c"}], "messages[0].content"),
    ([{"role": "system", "content": 5}], "messages[0].content"),
]


@pytest.mark.parametrize(("messages", "field"), BAD)
def test_bodies_that_break_the_old_engine_are_refused(messages: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        mend_openai_messages(messages, info())
    assert caught.value.field == field


@pytest.mark.parametrize("messages", [messages for messages, _ in BAD])
def test_newer_and_other_engines_judge_for_themselves(messages: Any) -> None:
    assert mend_openai_messages(messages, info("0.5.23")) is False
    assert mend_openai_messages(messages, info(None, kind="openai")) is False


def test_the_old_engine_knows_no_developer() -> None:
    messages = [{"role": "developer", "content": "x"}, USER]
    assert mend_openai_messages(messages, info()) is True
    assert messages == [{"role": "system", "content": "x"}, USER]
    assert mend_openai_messages(messages, info()) is False


def test_what_the_old_engine_takes_is_left_alone() -> None:
    parts = [{"type": "text", "text": "x"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}]
    assert mend_openai_messages(messages, info()) is False
