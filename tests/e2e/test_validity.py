"""Every object that the tests of this folder got is valid for every MLflow that we promise.

Last by name, so that it comes last.
"""

from __future__ import annotations

from tests.e2e.asking import Invocations
from tests.e2e.prompts import CAPITAL, QUESTIONS
from tests.e2e.tools import REQUIRED, TOOLS, WEATHER_QUESTION, WEATHER_STOP
from tests.mlflow_versions import validate


def test_every_mlflow_accepts_every_object(invocations: Invocations) -> None:
    """Run by itself it asks for one object of each kind."""
    forced = {"temperature": 0, "max_tokens": 80, "stop": WEATHER_STOP}
    forced |= {"tools": TOOLS, "tool_choice": REQUIRED}
    requests = [
        CAPITAL.request(logprobs=True, top_logprobs=1),
        QUESTIONS["line separator"].request(),
        QUESTIONS["one token"].request(),
        # An answer without a single character.
        CAPITAL.request(stop="The"),
        {"messages": WEATHER_QUESTION, "custom_inputs": forced},
    ]
    for request in requests:
        for stream in (False, True):
            invocations.ask(request | {"stream": stream})
    assert {candidate.kind for candidate in invocations.seen} == {"response", "chunk"}
    assert [str(problem) for problem in validate(invocations.seen)] == []
