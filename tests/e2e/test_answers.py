"""Real answers of the real model: what they say, and that both modes say the same."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.e2e.asking import Invocations, parse_events
from tests.e2e.prompts import CAPITAL, JAPANESE, QUESTIONS

# Nats between the two best candidates. Two versions of the same sum differ by some tenths.
CLEAR = 0.9


@pytest.mark.parametrize("name", QUESTIONS)
def test_answer(invocations: Invocations, name: str) -> None:
    question = QUESTIONS[name]
    reply = invocations.ask(question.request())
    assert reply.content == question.answer
    assert reply.finish_reason == question.finish_reason
    assert reply.usage["completion_tokens"] <= question.inputs.get("max_tokens", 64)
    assert (
        reply.usage["total_tokens"]
        == reply.usage["prompt_tokens"] + reply.usage["completion_tokens"]
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_streamed_answer_is_the_plain_answer(invocations: Invocations, name: str) -> None:
    question = QUESTIONS[name]
    plain = invocations.ask(question.request())
    streamed = invocations.ask(question.request(stream=True))
    assert streamed.comparable == plain.comparable
    assert streamed.content == question.answer


def test_characters_of_several_tokens_are_whole_in_a_stream(invocations: Invocations) -> None:
    """Also where the limit can cut: what is left of a character is the same in both modes."""
    text = "東京🗼は日本の首都"
    cut = 0
    for limit in (*range(1, 9), 60):
        request = CAPITAL.request(regex=text, max_tokens=limit, temperature=0)
        plain = invocations.ask(request)
        streamed = invocations.ask(request | {"stream": True})
        assert streamed.content == plain.content
        whole = streamed.content.removesuffix("\ufffd")
        assert text.startswith(whole)
        cut += whole != streamed.content
    assert cut, "no limit fell inside a character, so this has shown nothing"
    assert streamed.content == text


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_no_near_ties(invocations: Invocations, name: str) -> None:
    reply = invocations.ask(QUESTIONS[name].request(logprobs=True, top_logprobs=2))
    margins = {
        token["token"]: token["top_logprobs"][0]["logprob"] - token["top_logprobs"][1]["logprob"]
        for token in reply.custom_outputs["logprobs"]["content"]
    }
    assert min(margins.values()) > CLEAR, margins


def test_logprobs_are_the_same_in_both_modes(invocations: Invocations) -> None:
    request = CAPITAL.request(logprobs=True, top_logprobs=3)
    plain = invocations.ask(request)
    streamed = invocations.ask(request | {"stream": True})
    tokens = plain.custom_outputs["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens).startswith(CAPITAL.answer)
    assert len(tokens) == plain.usage["completion_tokens"]
    assert all(len(token["top_logprobs"]) == 3 for token in tokens)
    assert [token["token"] for token in streamed.custom_outputs["logprobs"]["content"]] == [
        token["token"] for token in tokens
    ]
    assert streamed.content == plain.content


def test_structured_output_is_json(invocations: Invocations) -> None:
    content = invocations.ask(QUESTIONS["json_schema"].request(stream=True)).content
    assert json.loads(content) == {"city": "Tokyo", "country": "Japan"}


def test_repeated_prompt_comes_from_the_cache(invocations: Invocations) -> None:
    invocations.ask(CAPITAL.request())
    usage = invocations.ask(CAPITAL.request()).usage
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2


def test_stream_arrives_piece_by_piece(url: str) -> None:
    """Not collected anywhere on its way, also for a client that reads raw bytes."""
    pieces = []
    request = QUESTIONS["long text"].request(stream=True)
    with (
        httpx.Client(timeout=100) as client,
        client.stream("POST", f"{url}/invocations", json=request) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-cache"
        pieces += list(answer.iter_raw())
    assert len(pieces) >= 5
    events = parse_events(b"".join(pieces))
    assert len(events) >= 5
    assert "".join(event["delta"]["content"] for event in events).startswith("The sun rises")


async def test_httpx_plain(url: str) -> None:
    async with httpx.AsyncClient(timeout=100) as client:
        answer = await client.post(f"{url}/invocations", json=JAPANESE.request())
    assert answer.json()["messages"][0]["content"] == JAPANESE.answer


def test_sampling_gives_different_answers(invocations: Invocations) -> None:
    inputs = {"temperature": 1.5, "max_tokens": 12}
    request = {
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "custom_inputs": inputs,
    }
    assert len({invocations.ask(request).content for _ in range(4)}) > 1
