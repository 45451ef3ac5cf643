"""The ChatAgent request: MLflow's signature, and where ours is kinder."""

from typing import Any

import pytest

from app.errors import InvalidRequest, MalformedRequest
from app.schemas.chat_agent import ChatAgentRequest, require_messages
from app.schemas.validation import parse

USER: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}


def taken(**body: Any) -> ChatAgentRequest:
    return parse(ChatAgentRequest, {"messages": [USER], **body})


@pytest.mark.parametrize(
    "body",
    [
        {"context": None},
        {"context": {"conversation_id": None, "user_id": None}},
        {"custom_inputs": None},
        {"stream": None},
        {"stream": True},
        {"messages": [USER | {"name": None, "id": None, "tool_calls": None, "attachments": None}]},
        {"messages": [USER | {"id": "same"}, USER | {"id": "same"}]},
        {"messages": [USER] * 10_000},
        {"messages": [{"role": "user", "content": "\x00\u2028🇯🇵" * 1000}]},
        {"databricks_options": {"return_trace": True}},
    ],
)
def test_accepted(body: dict[str, Any]) -> None:
    assert taken(**body).ignored_fields == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": USER}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [USER, {"content": "x"}]}, "messages[1].role"),
        ({"messages": [USER | {"role": 5}]}, "messages[0].role"),
        ({"messages": [USER | {"content": 5}]}, "messages[0].content"),
        ({"messages": [USER | {"reasoning_content": "x"}]}, "messages[0].reasoning_content"),
        ({"messages": [USER | {"attachments": {"a": 1}}]}, "messages[0].attachments.a"),
        (
            {"messages": [USER | {"tool_calls": [CALL | {"index": 0}]}]},
            "messages[0].tool_calls[0].index",
        ),
        (
            {"messages": [USER | {"tool_calls": [{"id": "c", "function": CALL["function"]}]}]},
            "messages[0].tool_calls[0].type",
        ),
        (
            {
                "messages": [
                    USER | {"tool_calls": [CALL | {"function": {"name": "f", "arguments": {}}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"context": []}, "context"),
        ({"context": {"session": "x"}}, "context.session"),
        ({"context": {"user_id": 5}}, "context.user_id"),
        ({"custom_inputs": []}, "custom_inputs"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
    ],
)
def test_refused_by_the_name_of_the_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        taken(**body)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"'{field}' ")


def test_text_parts_are_joined_and_others_refused() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}]
    assert taken(messages=[{"role": "user", "content": parts}]).messages[0].content == "ab"
    assert taken(messages=[{"role": "user", "content": []}]).messages[0].content == ""
    for part in ({"type": "image_url", "image_url": {}}, {"type": "text"}, "text", {"text": "a"}):
        with pytest.raises(InvalidRequest) as caught:
            taken(messages=[{"role": "user", "content": [part]}])
        assert caught.value.field == "messages[0].content"


def test_unknown_fields_beside_the_messages_are_kept_for_a_warning() -> None:
    assert taken(temperature=1, foo=2, databricks_options={}).ignored_fields == [
        "foo",
        "temperature",
    ]


def test_bodies_of_other_kinds() -> None:
    require_messages({"messages": []})
    for name in ("prompt", "input"):
        with pytest.raises(InvalidRequest) as caught:
            require_messages({name: "hi"})
        assert caught.value.field == name
        assert not isinstance(caught.value, MalformedRequest)
    for body in ({}, {"foo": 1}, {"context": {}}):
        with pytest.raises(MalformedRequest):
            require_messages(dict(body))
