"""What is asked of every peer: how many connections, what for, and how the engine answers."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

MODEL = "meta-llama/Llama-3.1-8B-Instruct"  # what the scripted engine calls itself


@dataclass(frozen=True)
class Scenario:
    """One load. Each connection has one request under way; the next begins when it has ended.

    Attributes:
        seconds: for how long is counted.
        warm_up: seconds before that.
        engine: how the engine answers; bench/rig/answers.h says what the names mean.
        long_prompt: 64 messages and 34 KB instead of 2 and 0.7 KB.
    """

    name: str
    connections: int
    seconds: float
    warm_up: float
    stream: bool = False
    engine: dict[str, int] = field(default_factory=dict)
    long_prompt: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of each answer."""
        return self.engine.get("tokens", 128)

    def quick(self) -> "Scenario":
        """The same in a second, to see that everything works; its figures are worth nothing."""
        return replace(self, seconds=1.0, warm_up=min(self.warm_up, 0.5))


_PACED = {"tokens": 200, "delay_us": 20_000}  # 50 tokens a second, for four seconds
_IN_STEP = {**_PACED, "sync": 1}  # as a batched decode step does
_SLOW = {"tokens": 128, "think_us": 1_000_000}

SCENARIOS = (
    # First, while a server's memory has not grown by other loads: streams that are merely open.
    Scenario("open512", 512, 3.5, 1.5, True, {"tokens": 12, "delay_us": 500_000}),
    Scenario("plain1", 1, 3, 0.5),
    Scenario("plain32", 32, 3, 0.7),
    Scenario("plain256", 256, 4, 1),
    Scenario("long32", 32, 3, 0.7, long_prompt=True),
    Scenario("slow256", 256, 6, 2, False, _SLOW),
    # All streams begin at once, again and again.
    Scenario("first1", 1, 3, 0.5, True, {"tokens": 8, "delay_us": 1000}),
    Scenario("first64", 64, 5, 1, True, {"tokens": 10, "delay_us": 20_000, "sync": 1}),
    Scenario("first512", 512, 6, 2, True, {"tokens": 20, "delay_us": 100_000, "sync": 1}),
    Scenario("burst64", 64, 4, 1.5, True, {"tokens": 256, "batch": 8}),
    Scenario("paced1", 1, 4, 1, True, _PACED),
    Scenario("paced64", 64, 6, 2, True, _IN_STEP),
    Scenario("spread64", 64, 6, 2, True, _PACED),
    Scenario("paced512", 512, 6, 4, True, _IN_STEP),
)

_SYSTEM = (
    "You are a careful assistant. Answer in full sentences, cite the passages that you rely on, "
    "and say so when you do not know. "
)
_QUESTION = (
    "Which city is the capital of France, since when, and what was it called under the Romans? "
    "Give the source of each fact. "
)
_PASSAGE = "The passage says that Lutetia stood on the left bank; see page 12, note 3. "


def body(speaks: str, stream: bool, long_prompt: bool) -> bytes:
    """A request's JSON, in the words of ``openai``, ``chat-agent`` or ``responses``."""
    messages = [
        {"role": "system", "content": _SYSTEM * 2},
        {"role": "user", "content": _QUESTION * 3},
    ]
    if long_prompt:
        turns = [
            {"role": ("user", "assistant")[i % 2], "content": (_PASSAGE * 8)[:512]}
            for i in range(62)
        ]
        messages = [messages[0], *turns, messages[1]]
    request: dict[str, Any] = {"input" if speaks == "responses" else "messages": messages}
    if speaks == "openai":
        request["model"] = MODEL
    if stream:
        request["stream"] = True
        if speaks == "openai":
            request["stream_options"] = {"include_usage": True}
    return json.dumps(request).encode()
