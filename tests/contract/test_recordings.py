"""Every recorded chat exchange, plain and streamed, through POST /invocations."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.contract.asking import constrained, invocation
from tests.contract.expected import (
    BEFORE_THE_ENGINE,
    BROKEN_STREAMS,
    DIFFERENT_ANSWERS,
    ENDLESS,
    LOST_IN_THE_STREAM,
    UNENFORCED,
    refusal,
)
from tests.contract.gateway import new_client, running_gateway
from tests.contract.outcome import Outcome, invoke
from tests.mlflow_versions import validate
from tests.replay import Recording, ReplayEngine, chat_recordings, pairs
from tests.replay.playing import Split

PLAYED = {each.id: each for each in chat_recordings() if each.name not in ENDLESS}
REFUSED = [key for key, each in PLAYED.items() if refusal(each)]
# The questions that get an answer. Where the engine would have ignored a grammar, the gateway
# refuses the question as it was recorded, so those are asked without the grammar.
ANSWERED = [
    key
    for key, each in PLAYED.items()
    if each.name not in BROKEN_STREAMS and refusal(each) in (None, UNENFORCED)
]
PLAIN = [key for key in ANSWERED if not PLAYED[key].streamed]
STREAMED = [key for key in ANSWERED if PLAYED[key].streamed]
# Streams of which the gateway may not change a character: no parser is at work in them.
TEXT_STREAMS = [
    key
    for key in STREAMED
    if not PLAYED[key].reasoning_parser
    and ("tools" not in PLAYED[key].request_body or key == "A-tools_none_stream")
]
PAIRS = [(plain.id, stream.id) for plain, stream in pairs() if plain.id in ANSWERED]

module_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Stage:
    """Two gateways in front of replay engines, one of which says that it parses reasoning."""

    client: aiohttp.ClientSession
    gateways: dict[str | None, tuple[str, ReplayEngine]]

    async def play(
        self, recorded: Recording, *, split: Split = "reads", grammar: bool = True
    ) -> tuple[Outcome, bool]:
        """Ask what was recorded; returns the outcome and whether the engine was asked."""
        url, engine = self.gateways[recorded.reasoning_parser]
        engine.play(recorded, split=split)
        before = len(engine.chats)
        outcome = await invoke(self.client, url, invocation(recorded, grammar=grammar))
        asked = len(engine.chats) > before
        engine.forget()
        return outcome, asked


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with (
        ReplayEngine() as simple,
        ReplayEngine(reasoning_parser="qwen3") as reasoning,
        running_gateway(simple) as simple_url,
        running_gateway(reasoning) as reasoning_url,
        new_client() as client,
    ):
        yield Stage(client, {None: (simple_url, simple), "qwen3": (reasoning_url, reasoning)})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refused(stage: Stage) -> dict[str, tuple[Outcome, bool]]:
    """What the questions got that must be refused."""
    return {key: await stage.play(PLAYED[key]) for key in REFUSED}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(stage: Stage) -> dict[str, Outcome]:
    """What the questions got that must be answered."""
    outcomes = {}
    for key in ANSWERED:
        grammar = refusal(PLAYED[key]) is None
        outcomes[key], _ = await stage.play(PLAYED[key], grammar=grammar)
    return outcomes


@pytest.mark.parametrize("key", REFUSED)
def test_refused_with_the_right_error(key: str, refused: dict[str, tuple[Outcome, bool]]) -> None:
    outcome, asked = refused[key]
    expected = refusal(PLAYED[key])
    assert expected is not None
    assert outcome.status == expected.status, outcome.body
    assert outcome.headers["content-type"] == "application/json"
    assert set(outcome.json) == {"error_code", "message"}
    assert outcome.error["error_code"] == expected.code
    assert expected.mentions in outcome.error["message"]
    local = PLAYED[key].name in BEFORE_THE_ENGINE or expected is UNENFORCED
    assert asked is not local


@pytest.mark.parametrize("key", REFUSED)
def test_errors_show_nothing_internal(key: str, refused: dict[str, tuple[Outcome, bool]]) -> None:
    body = refused[key][0].body.decode()
    for internal in ("Traceback", "pydantic", "Unauthorized", "Internal Server Error", "/models/"):
        assert internal not in body


@pytest.mark.parametrize("key", ANSWERED)
def test_answered_in_the_mode_that_was_asked_for(key: str, answers: dict[str, Outcome]) -> None:
    outcome = answers[key]
    assert outcome.status == 200, outcome.body
    assert outcome.streamed is PLAYED[key].streamed
    assert outcome.error is None


def test_every_answer_is_valid_in_every_mlflow_version(answers: dict[str, Outcome]) -> None:
    candidates = [each for key in ANSWERED for each in answers[key].candidates(key)]
    assert len(candidates) > len(ANSWERED) + 100
    assert [str(problem) for problem in validate(candidates)] == []


@pytest.mark.parametrize("key", ANSWERED)
def test_ids_roles_and_closing_fields(key: str, answers: dict[str, Outcome]) -> None:
    """What MLflow's classes drop or don't check, but other clients of ChatAgent servers need."""
    outcome = answers[key]
    parts = outcome.chunks if outcome.streamed else [outcome.json]
    messages = [part["delta"] if outcome.streamed else part["messages"][0] for part in parts]
    assert len({part["id"] for part in parts} - {""}) == 1
    assert len({message["id"] for message in messages} - {""}) == 1
    assert {message["role"] for message in messages} == {"assistant"}
    assert all(isinstance(message["content"], str) for message in messages)
    assert all(message["content"] or message.get("tool_calls") for message in messages)
    closing = [bool({"finish_reason", "usage", "custom_outputs"} & part.keys()) for part in parts]
    assert closing == [False] * (len(parts) - 1) + [True]
    for call in outcome.tool_calls:
        assert call.keys() == {"id", "type", "function"}
        assert call["id"]
        assert call["type"] == "function"
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert len({call["id"] for call in outcome.tool_calls}) == len(outcome.tool_calls)
    calls = bool(outcome.tool_calls)
    assert (outcome.closing["finish_reason"] == "tool_calls") is calls


@pytest.mark.parametrize("key", PLAIN)
def test_plain_answer_says_what_the_engine_said(key: str, answers: dict[str, Outcome]) -> None:
    choice = PLAYED[key].answer["choices"][0]
    outcome = answers[key]
    calls = [
        {"id": call["id"], "type": "function", "function": call["function"]}
        for call in choice["message"]["tool_calls"] or []
    ]
    assert outcome.tool_calls == calls
    reason = choice["finish_reason"]
    if reason == "tool_calls" and not calls:
        reason = "stop"
    assert outcome.closing["finish_reason"] == reason
    assert outcome.closing["usage"] == PLAYED[key].answer["usage"]
    if choice["logprobs"]:
        assert outcome.closing["custom_outputs"]["logprobs"] == choice["logprobs"]
    text, thought = choice["message"]["content"] or "", choice["message"]["reasoning_content"] or ""
    if thought and not text and reason == "stop":
        # The model ended by itself without closing its thought: the text is its answer.
        text, thought = thought, ""
    if PLAYED[key].reasoning_parser:
        # What is around and between thought and answer is white space of the template's.
        assert outcome.content.strip() == text.strip()
        assert outcome.reasoning == thought.strip()
    else:
        assert outcome.content == text


@pytest.mark.parametrize("key", TEXT_STREAMS)
def test_streamed_text_is_complete(key: str, answers: dict[str, Outcome]) -> None:
    """Without tools and reasoning nothing may be added, taken away or trimmed."""
    assert answers[key].content == said(PLAYED[key])
    assert answers[key].reasoning == ""


@pytest.mark.parametrize(("plain", "stream"), PAIRS)
def test_stream_equals_plain_answer(plain: str, stream: str, answers: dict[str, Outcome]) -> None:
    one, other = answers[plain].summary, answers[stream].summary
    if stream in LOST_IN_THE_STREAM:
        assert one["content"].startswith(other["content"].strip())
        assert one["content"] != other["content"], "not lost any more: take it off the list"
        one["content"] = other["content"]
    if stream in DIFFERENT_ANSWERS:
        assert said(PLAYED[plain]) != said(PLAYED[stream])
        one["reasoning"] = other["reasoning"]
    if all(event["usage"] is None for event in PLAYED[stream].events):
        # Recorded without include_usage, which the gateway always asks for.
        del one["usage"], other["usage"]
    assert other == one


@module_loop
@pytest.mark.parametrize("key", STREAMED)
async def test_splits_do_not_matter(key: str, stage: Stage, answers: dict[str, Outcome]) -> None:
    recorded = PLAYED[key]
    grammar = refusal(recorded) is None
    chance = random.Random(key)
    splits: list[Split] = ["whole", "bytes"]
    for pieces in (3, 30, 300):
        size = len(recorded.response)
        splits.append([chance.randrange(1, size) for _ in range(pieces)])
    for split in splits:
        outcome, _ = await stage.play(recorded, split=split, grammar=grammar)
        assert outcome.summary == answers[key].summary, split


@module_loop
@pytest.mark.parametrize("name", sorted(BROKEN_STREAMS))
async def test_broken_stream_ends_with_an_error(name: str, stage: Stage) -> None:
    recorded = next(each for each in PLAYED.values() if each.name == name)
    outcome, _ = await stage.play(recorded)
    assert outcome.status == 200
    assert outcome.content.startswith("I'm here to help")
    assert outcome.error == {"error_code": "INTERNAL_ERROR", "message": _any_text()}
    assert "pydantic" not in outcome.body.decode()


def test_the_lists_of_expectations_name_recordings() -> None:
    names = {each.name for each in chat_recordings()}
    assert set(BEFORE_THE_ENGINE) | BROKEN_STREAMS | ENDLESS <= names
    assert LOST_IN_THE_STREAM.keys() | DIFFERENT_ANSWERS <= {stream for _, stream in PAIRS}
    assert sum(constrained(PLAYED[key]) for key in REFUSED) > 10


def said(recorded: Recording) -> str:
    """All text of an answer, reasoning or not."""
    if recorded.streamed:
        messages = [event["choices"][0]["delta"] for event in recorded.events]
    else:
        messages = [recorded.answer["choices"][0]["message"]]
    return "".join((each["reasoning_content"] or "") + (each["content"] or "") for each in messages)


class _any_text:  # noqa: N801 - reads as a value
    def __eq__(self, other: Any) -> bool:
        return isinstance(other, str) and bool(other)
