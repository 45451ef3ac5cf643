"""Whether plain and streamed answers say the same, tool calls included, at temperature 0."""

from __future__ import annotations

from typing import Any

from tests.e2e.asking import Invocations
from tests.e2e.prompts import QUESTIONS, conversation
from tests.e2e.tools import NAMED, REQUIRED, TOOLS, WEATHER_QUESTION, WEATHER_STOP

# Any model can be asked these; what it says is not judged, only that it says it twice.
_ASKED = {
    "short": conversation([], "Name three colours."),
    "long": conversation([], "Write a story about the sea, ships and the weather."),
    "two turns": conversation([("Who are you?", "An assistant.")], "What can you do?"),
}


def compare_answers(url: str) -> dict[str, Any]:
    """By question: whether both modes agree, and what was said."""
    requests: dict[str, dict[str, Any]] = {
        name: {"messages": messages, "custom_inputs": {"temperature": 0, "max_tokens": 64}}
        for name, messages in _ASKED.items()
    }
    requests["json_schema"] = QUESTIONS["json_schema"].request()
    for name, choice in {"required": REQUIRED, "named": NAMED}.items():
        inputs = {"temperature": 0, "max_tokens": 80, "stop": WEATHER_STOP}
        inputs |= {"tools": TOOLS, "tool_choice": choice}
        requests[f"tool {name}"] = {"messages": WEATHER_QUESTION, "custom_inputs": inputs}
    found = {}
    with Invocations(url) as client:
        for name, request in requests.items():
            try:
                # First into the prefix cache: what is computed anew differs from what is found
                # there in the last bits, which is enough to turn a near-tie.
                client.ask(request)
                plain = client.ask(request | {"stream": False})
                streamed = client.ask(request | {"stream": True})
            except AssertionError as error:
                found[name] = {"equal": False, "said": str(error)[:300]}
                continue
            said = [plain.content, plain.functions, plain.finish_reason]
            found[name] = {
                "equal": streamed.comparable == plain.comparable,
                "said": str(said)[:300],
            }
            if not found[name]["equal"]:
                found[name]["streamed"] = str(streamed.comparable)[:300]
    return found
