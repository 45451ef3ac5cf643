"""Each check of the contract suite passes a sound model and catches the fault that it is for."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():
    # What MLflow warns of while it is imported is not ours to mend.
    warnings.simplefilter("ignore")
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, INVALID_PARAMETER_VALUE

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

JSON = dict[str, Any]
WORDS = ["One ", "red, ", "two ", "blue, ", "three ", "green."]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


class SoundAgent:
    """A ChatAgent as MLflow hands it out, without a fault. A word is a token."""

    def __init__(self) -> None:
        self._ids = count()

    def new_id(self) -> str:
        return f"msg_{next(self._ids)}"

    def refuse(self, body: JSON) -> None:
        inputs = body.get("custom_inputs", {})
        known = {"temperature", "max_tokens", "tools", "tool_choice", "ignore_eos"}
        message_keys = {key for message in body["messages"] for key in message}
        if (
            not body["messages"]
            or set(inputs) - known
            or inputs.get("temperature", 0) < 0
            or inputs.get("max_tokens", 0) > 10_000
            or message_keys - {"role", "content"}
        ):
            raise MlflowException("It is wrong.", error_code=INVALID_PARAMETER_VALUE)

    def words(self, body: JSON) -> list[str]:
        inputs = body.get("custom_inputs", {})
        return [] if "tools" in inputs else WORDS[: inputs.get("max_tokens")]

    def closing(self, body: JSON) -> JSON:
        words = self.words(body)
        cut = 0 < len(words) < len(WORDS)
        reason = "length" if cut else "stop" if words else "tool_calls"
        tokens = len(words)
        usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
        return {"finish_reason": reason, "usage": usage}

    def calls(self, body: JSON) -> list[JSON]:
        return [CALL] if "tools" in body.get("custom_inputs", {}) else []

    def message(self, body: JSON, content: str, message_id: str, last: bool) -> JSON:
        calls = self.calls(body) if last else []
        message = {"role": "assistant", "content": content, "id": message_id}
        return message | ({"tool_calls": calls} if calls else {})

    def predict(self, body: JSON) -> JSON:
        self.refuse(body)
        text = "".join(self.words(body))
        message = self.message(body, text, self.new_id(), last=True)
        return {"messages": [message], **self.closing(body)}

    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        self.refuse(body)
        message_id = self.new_id()
        *words, last = self.words(body) or [""]
        for word in words:
            yield {"delta": self.message(body, word, message_id, last=False)}
        yield {"delta": self.message(body, last, message_id, last=True), **self.closing(body)}


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


class Mute(SoundAgent):
    def words(self, body: JSON) -> list[str]:
        return [" "]


class OtherStream(SoundAgent):
    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        for chunk in super().predict_stream(body):
            chunk["delta"]["content"] = chunk["delta"]["content"].upper()
            yield chunk


class OnePiece(SoundAgent):
    def predict_stream(self, body: JSON) -> Iterator[JSON]:
        whole = self.predict(body)
        yield {"delta": whole["messages"][0], "usage": whole["usage"]}


class NoIds(SoundAgent):
    def new_id(self) -> str:
        return ""


class SameIds(SoundAgent):
    def new_id(self) -> str:
        return "msg"


class NewIdInEachChunk(SoundAgent):
    def message(self, body: JSON, content: str, message_id: str, last: bool) -> JSON:
        return super().message(body, content, self.new_id(), last)


class NoUsage(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        return {"finish_reason": super().closing(body)["finish_reason"]}


class WrongUsage(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        closing = super().closing(body)
        return closing | {"usage": closing["usage"] | {"total_tokens": 1}}


class AlwaysStop(SoundAgent):
    def closing(self, body: JSON) -> JSON:
        return super().closing(body) | {"finish_reason": "stop"}


class NoCalls(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        return []


class BrokenArguments(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        calls: list[JSON] = json.loads(json.dumps(super().calls(body)))
        for call in calls:
            call["function"]["arguments"] = '{"city": '
        return calls


class RefusesTools(SoundAgent):
    def refuse(self, body: JSON) -> None:
        super().refuse(body)
        if "tools" in body["custom_inputs"]:
            raise MlflowException("No tools in schema.", error_code=INVALID_PARAMETER_VALUE)


class CallsWithoutIds(SoundAgent):
    def calls(self, body: JSON) -> list[JSON]:
        return [call | {"id": ""} for call in super().calls(body)]


class AcceptsAll(SoundAgent):
    def refuse(self, body: JSON) -> None:
        """Nothing is wrong here."""


class BlamesItself(SoundAgent):
    def refuse(self, body: JSON) -> None:
        try:
            super().refuse(body)
        except MlflowException:
            raise MlflowException("Internal error.", error_code=INTERNAL_ERROR) from None


class RepeatsTheCaller(SoundAgent):
    def refuse(self, body: JSON) -> None:
        try:
            super().refuse(body)
        except MlflowException as error:
            raise MlflowException(f"{error} {body}", error_code=INVALID_PARAMETER_VALUE) from None


class DiesOfLongOnes(SoundAgent):
    def refuse(self, body: JSON) -> None:
        super().refuse(body)
        if any(len(message["content"]) > 10_000 for message in body["messages"]):
            raise ConnectionError("the engine is gone")


@pytest.mark.parametrize(
    ("check", "faulty", "reason"),
    [
        (answers.predict, Mute, "the answer is empty"),
        (answers.stream, OtherStream, "the stream gives 'ONE RED"),
        (answers.stream, OnePiece, "comes in one piece"),
        (answers.ids, NoIds, "has no id"),
        (answers.ids, SameIds, "two answers have the same id"),
        (answers.ids, NewIdInEachChunk, "different ids"),
        (answers.finish_and_usage, NoUsage, "usage is given 0 times"),
        (answers.finish_and_usage, WrongUsage, "usage says 5 + 3 = 1"),
        (answers.finish_and_usage, AlwaysStop, "cut at 3 tokens says 'stop'"),
        (answers.tools, NoCalls, "gave no call"),
        (answers.tools, RefusesTools, "No tools in schema"),
        (answers.tools, AlwaysStop, "finish reason 'stop' with a tool call"),
        (answers.tools, BrokenArguments, "no JSON object"),
        (answers.tools, CallsWithoutIds, "a call has no id"),
        (answers.errors, AcceptsAll, "ends with an answer"),
        (answers.errors, BlamesItself, "ends with INTERNAL_ERROR"),
        (answers.errors, RepeatsTheCaller, "repeats the caller's words"),
        (processes.payload, DiesOfLongOnes, "4 MB, which Databricks lets through"),
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
