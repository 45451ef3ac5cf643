"""The ChatAgent request that makes the gateway ask what a recording asked."""

from __future__ import annotations

from typing import Any

from tests.replay import Recording

# Parts of a chat completion request that have a place of their own in a ChatAgent request, or that
# the gateway sets itself.
_NOT_INPUTS = {"model", "messages", "stream", "stream_options", "user", "rid"}
# Harmless extras of OpenAI clients, which the engine ignores: callers send them in extra_body.
_EXTRAS = {"metadata", "store", "service_tier"}
_GRAMMARS = {"regex", "response_format"}


def invocation(recorded: Recording, *, grammar: bool = True) -> dict[str, Any]:
    """The same question in ChatAgent's form; ``grammar=False`` leaves out what constrains it."""
    asked = recorded.request_body
    inputs = {key: value for key, value in asked.items() if key not in _NOT_INPUTS | _EXTRAS}
    if extras := {key: asked[key] for key in sorted(_EXTRAS & asked.keys())}:
        inputs["extra_body"] = extras
    if not grammar:
        inputs = {key: value for key, value in inputs.items() if key not in _GRAMMARS}
        if inputs.get("tool_choice") == "required":
            inputs["tool_choice"] = "auto"
    request: dict[str, Any] = {"custom_inputs": inputs}
    for key in ("messages", "stream"):
        if key in asked:
            request[key] = asked[key]
    if "user" in asked:
        request["context"] = {"user_id": asked["user"]}
    return request


def constrained(recorded: Recording) -> bool:
    """Whether the question asked for a grammar or for a forced tool call."""
    asked = recorded.request_body
    return bool(_GRAMMARS & asked.keys()) or asked.get("tool_choice") == "required"
