"""Questions whose greedy answer is certain enough to be asserted.

Measured with ``logprobs`` on the CPU engine: at every token the best candidate leads the second
one by one nat or more, where the arithmetic of bfloat16, which depends on what else is in the
batch, moves them by some tenths. ``test_answers_are_no_near_ties`` measures it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """Messages and parameters, and the answer that they must have."""

    messages: list[Message]
    answer: str
    inputs: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"

    def request(self, *, stream: bool = False, **inputs: Any) -> dict[str, Any]:
        """The ChatAgent request, with more parameters on top."""
        chosen = {"temperature": 0, "max_tokens": 64} | self.inputs | inputs
        return {"messages": self.messages, "custom_inputs": chosen, "stream": stream}


def conversation(turns: list[tuple[str, str]], last: str) -> list[Message]:
    """Earlier questions with their answers, and a new question. Examples make a model certain."""
    messages = []
    for question, answer in turns:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
    return [*messages, {"role": "user", "content": last}]


def echo(*texts: str) -> list[Message]:
    """A conversation in which the assistant repeats whatever it is told."""
    return conversation([(text, text) for text in texts[:-1]], texts[-1])


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}

_CAPITALS = conversation(
    [
        ("The capital of Italy?", "The capital of Italy is Rome."),
        ("The capital of Spain?", "The capital of Spain is Madrid."),
        ("The capital of Germany?", "The capital of Germany is Berlin."),
    ],
    "The capital of Japan?",
)
_AS_JSON = conversation(
    [
        ("Rome", '{"city": "Rome", "country": "Italy"}'),
        ("Madrid", '{"city": "Madrid", "country": "Spain"}'),
        ("Berlin", '{"city": "Berlin", "country": "Germany"}'),
    ],
    "Tokyo",
)
_TOKYO = '{"city": "Tokyo", "country": "Japan"}'
_SENTENCE = "The sun rises in the east and sets in the west every single day of the year."

CAPITAL = Question(_CAPITALS, "The capital of Japan is Tokyo.")
ENDLESS = Question(
    [{"role": "user", "content": "Say 🎉🎉🎉"}], "🎉" * 8, {"max_tokens": 24}, "length"
)
JAPANESE = Question(
    echo("東京タワー", "大阪城", "富士山", "京都の寺", "北海道の雪", "海と山", "沖縄の海"),
    "沖縄の海",
)

QUESTIONS = {
    "plain text": CAPITAL,
    "long text": Question(echo(_SENTENCE, _SENTENCE), _SENTENCE),
    "Japanese": JAPANESE,
    "Japanese and emoji": Question(
        echo("東京🗼", "大阪🏯", "沖縄🏖", "富士山🗻", "京都⛩", "東京🗼"), "東京🗼"
    ),
    "emoji": Question(echo("🍎🍊", "🚗🚕🚙", "🐶🐱", "🗼😀"), "🗼😀"),
    "emoji up to the limit": ENDLESS,
    "line separator": Question(
        echo("one\u2028two", "three\u2028four", "five\u2028six", "red\u2028blue"), "red\u2028blue"
    ),
    "one token": Question(_CAPITALS, "The", {"max_tokens": 1}, "length"),
    "stop string": Question(_CAPITALS, "The capital", {"stop": " of Japan"}),
    "stop strings": Question(_CAPITALS, "The capital of ", {"stop": ["Kyoto", "Japan"]}),
    "stop string in Japanese": Question(JAPANESE.messages, "沖縄", {"stop": "の海"}),
    "json_schema": Question(_AS_JSON, _TOKYO, {"json_schema": SCHEMA}),
    "response_format": Question(
        _AS_JSON,
        _TOKYO,
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "place", "schema": SCHEMA},
            }
        },
    ),
    "json_object": Question(_AS_JSON, _TOKYO, {"response_format": {"type": "json_object"}}),
    "regex": Question(
        _CAPITALS, "The capital of Japan is Tokyo", {"regex": "The capital of Japan is [A-Z][a-z]+"}
    ),
}
