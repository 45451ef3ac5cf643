"""Each check of the contract suite passes a sound model and catches the fault that it is for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():
    # What MLflow warns of while it is imported is not ours to mend.
    warnings.simplefilter("ignore")
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

    from model_wrapper.contract import answers, processes
    from model_wrapper.contract.outcome import Outcome, Questionable, run_check
    from model_wrapper.contract.seen import (
        AGENT,
        CHAT,
        RESPONSES,
        interface_of,
        read_answer,
        request,
    )
    from model_wrapper.contract.subject import Subject

from tests.wrapper import toy_agents as toy
from tests.wrapper.toy_agents import JSON, SoundAgent


def subject_of(model: object, **description: Any) -> Subject:
    """A model that the suite takes for a loaded one."""
    subject = Subject(Path(), Path())
    subject._loaded = model  # type: ignore[assignment]
    subject.__dict__["interface"] = AGENT
    flavor = {"config": description.pop("config", {})}
    metadata = {"task": description.pop("task", "agent/v2/chat")}
    subject.__dict__["description"] = SimpleNamespace(
        flavors={"python_function": flavor}, metadata=metadata
    )
    return subject


def outcome_of(check: Callable[[Subject], str | None], model: object) -> Outcome:
    subject = subject_of(model)
    return run_check("the check", lambda: check(subject), "the fix")


CHECKS = (
    answers.predict,
    answers.stream,
    answers.ids,
    answers.finish_and_usage,
    answers.tools,
    answers.errors,
    processes.payload,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_sound_model_passes(check: Callable[[Subject], str | None]) -> None:
    outcome = outcome_of(check, SoundAgent())
    assert outcome.status == "passed", outcome


@pytest.mark.parametrize(
    ("check", "faulty", "reason"),
    [
        (answers.predict, toy.Mute, "the answer is empty"),
        (answers.stream, toy.OtherStream, "the stream gives 'ONE RED"),
        (answers.stream, toy.OnePiece, "comes in one piece"),
        (answers.ids, toy.NoIds, "has no id"),
        (answers.ids, toy.SameIds, "two answers have the same id"),
        (answers.ids, toy.NewIdInEachChunk, "different ids"),
        (answers.finish_and_usage, toy.NoUsage, "usage is given 0 times"),
        (answers.finish_and_usage, toy.WrongUsage, "usage says 5 + 3 = 1"),
        (answers.finish_and_usage, toy.AlwaysStop, "cut at 3 tokens says 'stop'"),
        (answers.tools, toy.NoCalls, "gave no call"),
        (answers.tools, toy.RefusesTools, "No tools in schema"),
        (answers.tools, toy.AlwaysStop, "finish reason 'stop' with a tool call"),
        (answers.tools, toy.BrokenArguments, "no JSON object"),
        (answers.tools, toy.CallsWithoutIds, "a call has no id"),
        (answers.errors, toy.AcceptsAll, "ends with an answer"),
        (answers.errors, toy.BlamesItself, "ends with INTERNAL_ERROR"),
        (answers.errors, toy.RepeatsTheCaller, "repeats the caller's words"),
        (processes.payload, toy.DiesOfLongOnes, "4 MB, which Databricks lets through"),
    ],
)
def test_a_fault_is_caught(
    check: Callable[[Subject], str | None], faulty: type[SoundAgent], reason: str
) -> None:
    outcome = outcome_of(check, faulty())
    assert outcome.status == "failed"
    assert reason in outcome.reason
    assert outcome.fix


def test_a_tie_that_a_busy_engine_breaks_differently_is_no_fault() -> None:
    class Wavering(SoundAgent):
        asked = 0

        def words(self, body: JSON) -> list[str]:
            self.asked += 1
            return ["One ", "pink."] if self.asked == 1 else super().words(body)

    # Each request reads the words several times; only the very first one sees the other text.
    outcome = outcome_of(answers.stream, Wavering())
    assert outcome.status == "passed", outcome


def test_a_model_without_tools_is_no_failure() -> None:
    class NoTools(SoundAgent):
        def refuse(self, body: JSON) -> None:
            if "tools" in body["custom_inputs"]:
                raise MlflowException(
                    "'custom_inputs.tools' needs a tool-call parser, and the engine was started "
                    "without one: set TOOL_CALL_PARSER and restart it.",
                    error_code=INVALID_PARAMETER_VALUE,
                )

    outcome = outcome_of(answers.tools, NoTools())
    assert (outcome.status, outcome.fix) == ("n/a", "")
    assert "parser" in outcome.reason


@pytest.mark.parametrize(
    ("config", "environment"),
    [({"request_timeout": 290}, None), ({"server": {"request_timeout": 290}}, None), ({}, "290")],
)
def test_a_time_limit_below_the_platforms(
    config: JSON, environment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUEST_TIMEOUT", raising=False)
    if environment:
        monkeypatch.setenv("REQUEST_TIMEOUT", environment)
    assert processes.time_limit(subject_of(SoundAgent(), config=config)) == "290 s"


def test_a_time_limit_above_the_platforms_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUEST_TIMEOUT", raising=False)
    with pytest.raises(Questionable, match="297 s"):
        processes.time_limit(subject_of(SoundAgent(), config={"request_timeout": 600}))


@pytest.mark.parametrize(("context", "tokens"), [(None, 1500), ("512", 256), (32768, 1500)])
def test_long_answers_have_room_in_the_context(
    context: object, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTEXT_LENGTH", raising=False)
    config = {"context_length": context} if context else {}
    assert processes._long(subject_of(SoundAgent(), config=config)) == tokens


def test_models_that_are_no_agents_get_larger_requests() -> None:
    told = processes.payload(subject_of(SoundAgent(), task="llm/v1/chat"))
    assert told.startswith("16 MB")


def test_interfaces_are_told_apart_by_their_inputs() -> None:
    # Names of the signatures that MLflow 3.17 gives each class.
    assert interface_of(["messages", "context", "custom_inputs", "stream"]) == AGENT
    assert interface_of(["messages", "temperature", "max_tokens", "custom_inputs"]) == CHAT
    assert interface_of(["input", "temperature", "custom_inputs"]) == RESPONSES


def test_requests_in_each_interfaces_words() -> None:
    tool = {"type": "function", "function": {"name": "now"}}
    messages = [{"role": "user", "content": "Hi"}]
    parameters: JSON = {"temperature": 0.0, "max_tokens": 3, "ignore_eos": True}
    assert request(AGENT, messages, tools=[tool], **parameters) == {
        "messages": messages,
        "custom_inputs": {**parameters, "tools": [tool]},
    }
    assert request(RESPONSES, messages, tools=[tool], **parameters) == {
        "input": messages,
        "temperature": 0.0,
        "max_output_tokens": 3,
        "custom_inputs": {"ignore_eos": True, "tools": [tool]},
    }
    assert request(CHAT, messages, tools=[tool], **parameters) == {
        "messages": messages,
        "temperature": 0.0,
        "max_tokens": 3,
        "tools": [tool],
        "custom_inputs": {"ignore_eos": True},
    }


def test_a_cut_response_says_length() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}
    seen = read_answer(RESPONSES, {"output": [item], "status": "incomplete"})
    assert (seen.text, seen.ids, seen.finish) == ("Hi", ["msg_1"], "length")
