"""The rules for a conversation, row by row of the table in app/schemas/conversation.py."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.schemas.chat_agent import ChatAgentRequest
from app.schemas.conversation import ROLES, engine_messages, fold_system, is_json_object
from app.schemas.validation import parse

USER: dict[str, Any] = {"role": "user", "content": "hi"}


def call(call_id: str = "c1", name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def translated(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return engine_messages(parse(ChatAgentRequest, {"messages": list(messages)}).messages)


def refused(*messages: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        translated(*messages)
    return caught.value


def message(role: str, content: str | None = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_developer_becomes_system() -> None:
    assert translated(message("developer"), USER) == [message("system"), USER]


def test_leading_system_messages_are_joined_and_later_ones_stay() -> None:
    leading = [message("system", "a"), message("developer", "b"), message("system", "c")]
    assert translated(*leading, USER, message("system", "d")) == [
        message("system", "a\n\nb\n\nc"),
        USER,
        message("system", "d"),
    ]
    assert translated(*leading) == [message("system", "a\n\nb\n\nc")]
    assert translated(*leading[:2]) == [message("system", "a\n\nb")]
    assert translated(*leading[:1]) == leading[:1]


SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "x"}


@pytest.mark.parametrize(
    ("turns", "folded"),
    [
        ([SYSTEM, USER, ANSWER], [USER | {"content": "Be brief.\n\nhi"}, ANSWER]),
        ([SYSTEM, USER | {"name": "Ann"}], [USER | {"name": "Ann", "content": "Be brief.\n\nhi"}]),
        ([SYSTEM, ANSWER], [USER | {"content": "Be brief."}, ANSWER]),
        ([SYSTEM], [USER | {"content": "Be brief."}]),
        ([USER, SYSTEM], [USER, SYSTEM]),
    ],
)
def test_a_template_without_a_system_role_gets_it_in_the_users_turn(
    turns: list[dict[str, Any]], folded: list[dict[str, Any]]
) -> None:
    before = [dict(turn) for turn in turns]
    assert fold_system(turns) == folded
    assert turns == before


def test_the_same_role_twice_in_a_row_is_passed_on() -> None:
    turns = [USER, USER, message("assistant"), message("assistant")]
    assert translated(*turns) == turns


@pytest.mark.parametrize(
    ("role", "hint"),
    [("usr", "'user'"), ("Assistant", "'assistant'"), ("TOOL", "'tool'"), ("human", "Known roles")],
)
def test_an_unknown_role_is_refused_with_the_known_ones(role: str, hint: str) -> None:
    error = refused(USER, message(role))
    assert error.field == "messages[1].role"
    assert hint in error.message


@pytest.mark.parametrize("role", ["", "\x00", "user ", "x" * 1_000_000, "ユーザー"])
def test_odd_roles_are_not_quoted(role: str) -> None:
    error = refused(message(role))
    assert error.field == "messages[0].role"
    assert len(error.message) < 200


def test_null_content_is_empty_beside_tool_calls_and_refused_elsewhere() -> None:
    asked = message("assistant", None, tool_calls=[call()])
    assert translated(asked) == [asked | {"content": ""}]
    assert translated({k: v for k, v in asked.items() if k != "content"})[0]["content"] == ""
    for role in ROLES:
        error = refused(USER, message(role, None, tool_call_id="c1", name="f"))
        assert error.field == "messages[1].content"
    assert refused(message("assistant", None, tool_calls=[])).field == "messages[0].content"


def test_empty_content_is_content() -> None:
    assert translated(message("user", ""), message("assistant", "")) == [
        message("user", ""),
        message("assistant", ""),
    ]


def test_tool_calls_are_passed_on_whole_and_only_from_the_assistant() -> None:
    calls = [call("c1", "f", '{"city": "東京"}'), call("c2", "g")]
    assert translated(message("assistant", "x", tool_calls=calls))[0]["tool_calls"] == calls
    for role in ("user", "system", "tool", "developer"):
        error = refused(message(role, tool_calls=[call()]))
        assert error.field == "messages[0].tool_calls"


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        " ",
        "null",
        "[]",
        '"x"',
        "{",
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        "{}{}",
        "\x00",
    ],
)
def test_arguments_must_be_the_text_of_an_object(arguments: str) -> None:
    error = refused(USER, message("assistant", tool_calls=[call(), call("c2", "g", arguments)]))
    assert error.field == "messages[1].tool_calls[1].function.arguments"


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers(-(2**63), 2**63)))
def test_any_json_object_is_one(value: dict[str, Any]) -> None:
    assert is_json_object(json.dumps(value))
    assert not is_json_object(json.dumps([value]))


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "\ud800", '{"a": "\ud800"}'])
def test_no_text_breaks_the_check(text: str) -> None:
    assert not is_json_object(text)


def test_a_tool_result_gets_its_name_from_the_call_it_answers() -> None:
    asked = message("assistant", tool_calls=[call("c1", "f"), call("c2", "g")])
    result = message("tool", tool_call_id="c2")
    assert translated(USER, asked, result)[2] == result | {"name": "g"}
    assert translated(result | {"name": "own"}) == [result | {"name": "own"}]


def test_of_two_calls_with_one_id_the_later_gives_the_name() -> None:
    turns = [message("assistant", tool_calls=[call("c1", name)]) for name in ("f", "g")]
    assert translated(*turns, message("tool", tool_call_id="c1"))[2]["name"] == "g"


def test_a_tool_result_without_a_call_is_refused() -> None:
    assert refused(message("tool")).field == "messages[0].tool_call_id"
    assert refused(message("tool", tool_call_id="")).field == "messages[0].tool_call_id"
    later = message("assistant", tool_calls=[call()])
    error = refused(message("tool", tool_call_id="c1"), later)
    assert error.field == "messages[0].name"


def test_ids_and_attachments_stay_here_and_a_users_name_does_not() -> None:
    full = {"id": "same", "attachments": {"a": "b"}, "name": "Kim"}
    turns = [message("user", **full), message("assistant", **full), message("system", **full)]
    assert translated(*turns) == [
        message("user", name="Kim"),
        message("assistant"),
        message("system"),
    ]


contents = st.text(max_size=20)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), contents), min_size=1))
def test_plain_turns_arrive_as_they_are(turns: list[tuple[str, str]]) -> None:
    messages = [message(role, content) for role, content in turns]
    assert translated(*messages) == messages
