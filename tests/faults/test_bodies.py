"""A hundred thousand mutated bodies: each is refused in words or answered, and none is a fault."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.unit.asgi import JSON_TYPE, ask
from tests.unit.test_openai_relay import FakeAnswer
from tests.unit.whole_app import ManagedFake, app_before

EACH = 25_000
ANSWER = (
    b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Red."}, '
    b'"finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1, '
    b'"total_tokens": 2}}'
)
STREAM = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "Red."}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


class SoundEngine(ManagedFake):
    """Answers everything that reaches it, plain or streamed."""

    def answer(self, stream: bool) -> FakeAnswer:
        return FakeAnswer(STREAM if stream else ANSWER)


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CHAT_AGENT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Name three colours.", "id": "u1"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "content": "x", "tool_call_id": "c1", "name": "f"},
    ],
    "context": {"conversation_id": "c", "user_id": "u"},
    "custom_inputs": {
        "temperature": 0.2, "max_tokens": 10, "stop": ["a"], "tools": [TOOL],
        "tool_choice": "auto", "logit_bias": {"1": 1}, "response_format": {"type": "text"},
        "extra_body": {"custom_params": {"a": 1}},
    },
    "stream": False,
}  # fmt: skip
OPENAI: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    "temperature": 0.5,
    "tools": [TOOL],
    "stream_options": {"include_usage": True},
    "stream": False,
}
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, "", "x", "\x00",
    "\ud7ff", "\u2028", "é" * 50, [], {}, [[]], [{}], {"": None}, {"a": {"a": {"a": {}}}}, "true",
    "data:,", "http://127.0.0.1/", [None] * 50, {"type": "object", "properties": 1}, {"$ref": "#"},
]  # fmt: skip


def changed(base: dict[str, Any], dice: random.Random) -> bytes:
    """The body with one to four things wrong, in its values or in its bytes."""
    body = copy.deepcopy(base)
    if dice.random() < 0.7:
        for _ in range(dice.randint(1, 4)):
            _change_value(body, dice)
    encoded = json.dumps(body).encode()
    if dice.random() < 0.4:
        for _ in range(dice.randint(1, 3)):
            encoded = _change_bytes(encoded, dice)
    return encoded


def _change_value(body: Any, dice: random.Random) -> None:
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            places.append((value, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(body)
    if not places:
        return
    container, key = dice.choice(places)
    how = dice.randrange(4)
    if how == 0:
        del container[key]
    elif how == 1 and isinstance(container, dict):
        container[dice.choice(["x", key + "_", key.upper(), "n", "extra_body"])] = container[key]
    else:
        container[key] = copy.deepcopy(dice.choice(ODD))


def _change_bytes(encoded: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(encoded) + 1)
    how = dice.randrange(4)
    if how == 0:
        return encoded[:place]
    if how == 1:
        return encoded[:place] + dice.randbytes(dice.randint(1, 4)) + encoded[place:]
    if how == 2:
        end = min(len(encoded), place + dice.randint(1, 20))
        return encoded[:place] + encoded[end:]
    return encoded[:place] + encoded[max(0, place - 10) : place] * 3 + encoded[place:]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("path", "base"), [("/invocations", CHAT_AGENT), ("/v1/chat/completions", OPENAI)]
)
async def test_no_body_is_a_fault(path: str, base: dict[str, Any], seed: int) -> None:
    app = app_before(SoundEngine())
    dice = random.Random(seed)
    sound = await ask(app, path, "POST", headers=JSON_TYPE, parts=[json.dumps(base).encode()])
    assert sound.status == 200
    statuses: Counter[int] = Counter()
    for _ in range(EACH):
        body = changed(base, dice)
        answer = await ask(app, path, "POST", headers=JSON_TYPE, parts=[body])
        assert answer.status in (200, 400, 404), (answer.status, answer.body, body)
        assert answer.ended, body
        if answer.status != 200:
            told = answer.json
            assert (told["error"] if path.startswith("/v1") else told)["message"], body
        statuses[answer.status] += 1
    # Both kinds must occur, or nothing was tried.
    assert min(statuses[200], statuses[400]) > EACH // 50, statuses
