"""Errors of the schema: the path as it is in the request, and the nearest right name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.schemas.chat_agent import ChatAgentRequest
from app.schemas.sampling import CustomInputs
from app.schemas.validation import parse

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def refusal(model: Any, data: object, where: str = "") -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(model, data, where)
    return caught.value


@pytest.mark.parametrize("right", CustomInputs.model_fields)
def test_a_slip_in_a_name_is_answered_with_the_right_one(right: str) -> None:
    wrong = right[:-1] if len(right) > 4 else right + "s"
    error = refusal(CustomInputs, {wrong: 1}, "custom_inputs")
    assert error.field == f"custom_inputs.{wrong}"
    assert "Did you mean '" in error.message
    camel = right.title().replace("_", "")
    assert refusal(CustomInputs, {camel: 1}, "custom_inputs").field == f"custom_inputs.{camel}"


def test_a_name_like_no_other_is_answered_with_all_names() -> None:
    assert "temperature, tool_choice" in refusal(CustomInputs, {"xyz": 1}).message


FUNCTION = {"type": "function"}


@pytest.mark.parametrize(
    ("inputs", "field", "words"),
    [
        ({"stop": 5}, "stop", "should be"),
        ({"stop": ["a", 5]}, "stop[1]", "valid string"),
        ({"tool_choice": "any"}, "tool_choice", "'auto', 'none' or 'required'"),
        ({"tool_choice": 5}, "tool_choice", "'auto', 'none' or 'required'"),
        ({"tool_choice": FUNCTION}, "tool_choice.function", "is missing"),
        (
            {"tool_choice": FUNCTION | {"function": {"name": "f", "nam": 1}}},
            "tool_choice.function.nam",
            "Did you mean 'name'?",
        ),
        ({"tools": [FUNCTION | {"functio": 1}]}, "tools[0].function", "is missing"),
        ({"tools": [5]}, "tools[0]", "should be an object"),
        (
            {"tools": [FUNCTION | {"function": {"name": "f", "paramters": {}}}]},
            "tools[0].function.paramters",
            "Did you mean 'parameters'?",
        ),
        (
            {"tools": [FUNCTION | {"function": {"name": "two words"}}]},
            "tools[0].function.name",
            "should match",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": {}, "scheme": 1},
                }
            },
            "response_format.json_schema.scheme",
            "Did you mean 'schema'?",
        ),
        ({"logit_bias": {"a": 1}}, "logit_bias.a", "should match"),
        ({"logit_bias": {"5": "x"}}, "logit_bias.5", "valid number"),
        ({"chat_template_kwargs": 5}, "chat_template_kwargs", "should be an object"),
    ],
)
def test_paths_hold_nothing_but_the_callers_own_keys(
    inputs: dict[str, Any], field: str, words: str
) -> None:
    error = refusal(CustomInputs, inputs, "custom_inputs")
    assert error.field == f"custom_inputs.{field}"
    assert error.message.startswith(f"'custom_inputs.{field}' ")
    assert words in error.message


def test_names_of_any_length_are_cut() -> None:
    error = refusal(CustomInputs, {"temperature" * 100_000: 1}, "custom_inputs")
    assert len(error.message) < 1000
    assert len(error.field or "") < 100


def refused_field(model: Any, data: object, where: str = "") -> str | None:
    """Name of the field that was refused, None when all was well; "" would be a field unnamed."""
    try:
        parse(model, data, where)
    except InvalidRequest as error:
        return error.field or ""
    return None


@given(st.sampled_from(list(CustomInputs.model_fields)), json_values)
def test_any_value_is_taken_or_refused_by_its_name(name: str, value: object) -> None:
    field = refused_field(CustomInputs, {name: value}, "custom_inputs")
    assert field is None or field.startswith("custom_inputs")


@given(st.dictionaries(st.sampled_from(["messages", "context", "stream", "x"]), json_values))
def test_any_body_is_taken_or_refused(body: dict[str, object]) -> None:
    assert refused_field(ChatAgentRequest, body) != ""


@given(st.text(min_size=9), st.sampled_from(["temperature", "top_k", "stop_token_ids", "logprobs"]))
def test_values_are_never_quoted(secret: str, name: str) -> None:
    assert secret not in refusal(CustomInputs, {name: secret}, "custom_inputs").message
