"""``custom_inputs``: what is taken, under which key it reaches the engine, and what is refused."""

import math
import time
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.schemas.sampling import RESERVED, CustomInputs, engine_parameters
from app.schemas.validation import parse

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "f"}}

# Every parameter with a value that is right, and what it needs beside itself.
RIGHT: dict[str, tuple[Any, dict[str, Any]]] = {
    "temperature": (0.5, {}),
    "top_p": (0.9, {}),
    "top_k": (40, {}),
    "min_p": (0.05, {}),
    "max_tokens": (100, {}),
    "max_completion_tokens": (100, {}),
    "min_tokens": (1, {}),
    "stop": (["\n\n", "終わり"], {}),
    "stop_token_ids": ([1, 2], {}),
    "seed": (-1, {}),
    "presence_penalty": (-2.0, {}),
    "frequency_penalty": (2.0, {}),
    "repetition_penalty": (1.1, {}),
    "logit_bias": ({"15": -100.0}, {}),
    "logprobs": (True, {}),
    "top_logprobs": (20, {"logprobs": True}),
    "ignore_eos": (True, {}),
    "skip_special_tokens": (False, {}),
    "no_stop_trim": (True, {}),
    "continue_final_message": (True, {}),
    "response_format": ({"type": "json_object"}, {}),
    "regex": ("[ab]+", {}),
    "ebnf": ('root ::= "a"', {}),
    "tools": ([TOOL], {}),
    "tool_choice": (NAMED, {"tools": [TOOL]}),
    "parallel_tool_calls": (False, {"tools": [TOOL]}),
    "separate_reasoning": (True, {}),
    "stream_reasoning": (False, {}),
    "reasoning_effort": ("low", {}),
    "chat_template_kwargs": ({"enable_thinking": False, "x": None}, {}),
    "lora_path": ("adapter", {}),
}
# These do not go to the engine under their own name.
TRANSLATED = {"n", "json_schema", "extra_body"}

NUMBERS = [
    *("temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens"),
    *("min_tokens", "seed", "n", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    "top_logprobs",
]
INTEGERS = [name for name in NUMBERS if name in ("n", "seed", "top_k") or "tokens" in name]


def sent(**inputs: Any) -> dict[str, Any]:
    return engine_parameters(parse(CustomInputs, inputs, "custom_inputs"))


def refused(**inputs: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        sent(**inputs)
    return caught.value


def test_the_table_of_parameters_is_complete() -> None:
    assert set(RIGHT) | TRANSLATED == set(CustomInputs.model_fields)


@pytest.mark.parametrize("name", RIGHT)
def test_right_values_reach_the_engine_unchanged(name: str) -> None:
    value, beside = RIGHT[name]
    assert sent(**{name: value}, **beside) == {name: value} | beside


@pytest.mark.parametrize("name", [*RIGHT, *TRANSLATED])
def test_null_counts_as_absent_and_objects_in_place_of_values_are_named(name: str) -> None:
    assert sent(**{name: None}) == {}
    wrong = [[]] if name not in ("stop", "stop_token_ids", "tools") else [{}]
    assert refused(**{name: wrong[0]}).field == f"custom_inputs.{name}"


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("wrong", [True, "1", math.nan, math.inf, 10**400])
def test_what_is_no_number_is_refused(name: str, wrong: Any) -> None:
    error = refused(**{name: wrong}, **({"logprobs": True} if name == "top_logprobs" else {}))
    assert error.field == f"custom_inputs.{name}"
    assert str(wrong)[:50] not in error.message.replace(name, "") or wrong == "1"


@pytest.mark.parametrize("name", INTEGERS)
def test_whole_numbers_are_not_written_as_fractions(name: str) -> None:
    assert refused(**{name: 1.0}).field == f"custom_inputs.{name}"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *[("temperature", -0.1), ("top_p", 0), ("top_p", 1.01), ("min_p", 1.1), ("top_k", -2)],
        *[("max_tokens", 0), ("max_completion_tokens", 0), ("min_tokens", -1), ("n", 2), ("n", 0)],
        *[("presence_penalty", 2.1), ("frequency_penalty", -2.1), ("repetition_penalty", 0)],
        *[("top_logprobs", 21), ("reasoning_effort", "max"), ("stop", ""), ("stop", ["a", ""])],
        *[("stop_token_ids", [-1]), ("logit_bias", {"token": 1}), ("logit_bias", {"5": True})],
        *[("tools", []), ("regex", ""), ("regex", "("), ("ebnf", ""), ("lora_path", "")],
        *[("regex", "a{99999999999}"), ("regex", "(" * 4000 + ")" * 4000), ("regex", "a" * 10001)],
    ],
)
def test_values_out_of_range_are_refused(name: str, wrong: Any) -> None:
    assert (refused(**{name: wrong}).field or "").startswith(f"custom_inputs.{name}")


@pytest.mark.parametrize("name", ["top_k", "max_tokens", "min_tokens"])
def test_numbers_that_the_engine_cannot_hold_are_refused(name: str) -> None:
    assert sent(**{name: 2**31 - 1}) == {name: 2**31 - 1}
    assert refused(**{name: 2**31}).field == f"custom_inputs.{name}"
    assert refused(seed=2**63).field == "custom_inputs.seed"
    assert refused(stop_token_ids=[2**31]).field == "custom_inputs.stop_token_ids[0]"


def test_one_stop_string_is_a_list_of_one() -> None:
    assert sent(stop="\n") == {"stop": ["\n"]}


def test_json_schema_is_short_for_a_response_format() -> None:
    whole = {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}}
    assert sent(json_schema=SCHEMA) == {"response_format": whole} == sent(response_format=whole)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"next": {"$ref": "#"}}, "default": None, "enum": [None, {"a": None}]},
        {"$ref": "http://example.com/never-fetched"},
        {},
    ],
)
def test_schemas_arrive_whole_and_are_not_followed(schema: dict[str, Any]) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert sent(tools=[tool])["tools"] == [tool]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": []},
        {"properties": {"secret-" * 100: 5}},
        {"pattern": "("},
        {"pattern": "a{99999999999}"},
        {"pattern": "(" * 4000 + ")" * 4000},
        nested(400),
    ],
    ids=["type", "properties", "name", "pattern", "repetition", "deep pattern", "deep"],
)
def test_bad_schemas_are_refused_in_few_words(schema: dict[str, Any]) -> None:
    error = refused(json_schema=schema)
    assert error.field == "custom_inputs.json_schema"
    assert len(error.message) < 300
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert refused(tools=[tool]).field == "custom_inputs.tools[0].function.parameters"


@pytest.mark.parametrize(
    "pattern", ["(?P<my-secret>x)", "(?P=my_secret)", "my secret\\", "(?<=a*)"]
)
def test_the_error_for_a_regex_does_not_quote_it(pattern: str) -> None:
    assert "secret" not in refused(regex=pattern).message


def test_the_longest_regex_is_checked_in_no_time() -> None:
    started = time.perf_counter()
    sent(regex="(a|b)" * 2000)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    "inputs",
    [
        {"regex": "a", "ebnf": 'root ::= "a"'},
        {"response_format": {"type": "text"}, "json_schema": SCHEMA},
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"top_logprobs": 2},
        {"top_logprobs": 2, "logprobs": False},
        {"tools": [TOOL, TOOL]},
        {"tool_choice": "auto"},
        {"tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": NAMED | {"function": {"name": "g"}}},
        *({"extra_body": {name: 1}} for name in sorted({*RESERVED, *CustomInputs.model_fields})),
    ],
)
def test_parts_that_do_not_fit_together(inputs: dict[str, Any]) -> None:
    assert refused(**inputs).field == "custom_inputs"


def test_extra_body_goes_to_the_engine_as_it_is() -> None:
    extra = {"new_parameter": {"deep": [None, "\u2028"]}}
    assert sent(temperature=1, extra_body=extra) == {"temperature": 1} | extra
    assert sent(n=1, tool_choice="none") == {"tool_choice": "none"}
