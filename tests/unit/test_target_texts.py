"""Environment variables, known failures, and questions in each interface's words."""

from __future__ import annotations

from typing import Any

import pytest

from model_wrapper.targets import environment
from model_wrapper.targets.asking import piece_of, question, text_of
from model_wrapper.targets.base import TargetError
from model_wrapper.targets.failures import KNOWN_FAILURES, explain


def test_variables() -> None:
    pairs = ["A=1", "B=x=y", "C=", "D={{secrets/scope-1/key_2}}"]
    assert environment.parse(pairs) == {
        "A": "1",
        "B": "x=y",
        "C": "",
        "D": "{{secrets/scope-1/key_2}}",
    }


@pytest.mark.parametrize(
    "pair",
    ["A", "=1", "1A=1", "A B=1", "A={{secrets/x}}", "A={{ secrets/x/y }}", "A=x{{secrets/x/y}}",
     "A=secrets/x/y"],
)  # fmt: skip
def test_a_variable_that_is_no_good(pair: str) -> None:
    with pytest.raises(TargetError) as caught:
        environment.parse([pair])
    assert caught.value.mistake


def test_thirty_variables_and_no_more() -> None:
    many = {f"A{number}": "" for number in range(30)}
    environment.check_count(many)
    with pytest.raises(TargetError, match="30"):
        environment.check_count({**many, "B": ""})


def test_a_variable_given_twice() -> None:
    with pytest.raises(TargetError, match="twice"):
        environment.parse(["A=1", "A=2"])


@pytest.mark.parametrize("known", KNOWN_FAILURES, ids=lambda known: known.text)
def test_each_known_text_is_found_in_a_log(known: Any) -> None:
    assert explain("", f"Traceback …\n2026-12-01 ERROR {known.text}: more\nend") is known


def test_an_unknown_text_is_not_explained() -> None:
    assert explain("everything is fine", "INFO ready") is None


@pytest.mark.parametrize(
    ("interface", "answer"),
    [
        ("chat-agent", {"messages": []} | {"messages": [{"content": "a"}, {"content": "b"}]}),
        (
            "responses-agent",
            {
                "output": [
                    {"type": "function_call"},
                    {"type": "message", "content": [{"text": "a"}, {"text": "b"}]},
                ]
            },
        ),
        ("chat-model", {"choices": [{"message": {"content": "ab"}}]}),
        ("openai", {"choices": [{"message": {"content": "ab"}}]}),
    ],
)
def test_text_of_an_answer(interface: str, answer: Any) -> None:
    assert text_of(interface, answer) == "ab"


@pytest.mark.parametrize("interface", ["chat-agent", "responses-agent", "openai"])
@pytest.mark.parametrize("odd", [{}, {"messages": 1, "output": 1, "choices": 1}, {"choices": []}])
def test_an_answer_of_somebody_else(interface: str, odd: Any) -> None:
    with pytest.raises(TargetError, match=interface):
        text_of(interface, odd)


@pytest.mark.parametrize("interface", ["chat-agent", "responses-agent", "openai"])
@pytest.mark.parametrize(
    "event", [{"error": {"message": "lost"}}, {"type": "error", "message": "lost"}]
)
def test_an_error_in_a_stream(interface: str, event: Any) -> None:
    with pytest.raises(TargetError, match="lost"):
        piece_of(interface, event)


def test_only_what_was_given_is_asked_for() -> None:
    assert question("chat-agent", "hi") == {"messages": [{"role": "user", "content": "hi"}]}
    assert question("responses-agent", "hi", max_tokens=5) == {
        "input": [{"role": "user", "content": "hi"}],
        "max_output_tokens": 5,
    }
