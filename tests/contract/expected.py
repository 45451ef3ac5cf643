"""What the gateway must answer where it can't or must not hand the engine's answer on."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contract.asking import constrained
from tests.replay import Recording


@dataclass(frozen=True)
class Refusal:
    """An error answer: status, MLflow's error_code, and words its message must have."""

    status: int
    code: str
    mentions: str


def _invalid(mentions: str) -> Refusal:
    return Refusal(400, "INVALID_PARAMETER_VALUE", mentions)


# Refused before the engine is asked. What this engine did instead is in the comments.
BEFORE_THE_ENGINE = {
    # Status 500 in plain text.
    "content_null_user": _invalid("messages[0].content"),
    "empty_messages": _invalid("messages"),
    "missing_messages": Refusal(400, "BAD_REQUEST", "messages"),
    "messages_string": _invalid("messages"),
    # An empty assistant turn in the prompt.
    "content_null_assistant": _invalid("messages[1].content"),
    # Two choices, of which a ChatAgent answer has room for one.
    "n2_plain": _invalid("custom_inputs.n"),
    # The default number of tokens.
    "max_tokens_zero": _invalid("custom_inputs.max_tokens"),
    # Status 400; when streaming, status 200 with an error inside.
    "max_tokens_negative": _invalid("custom_inputs.max_tokens"),
    "negative_temperature": _invalid("custom_inputs.temperature"),
    "negative_temperature_stream": _invalid("custom_inputs.temperature"),
    # Free text as if nothing had been asked for.
    "tools_named_unknown": _invalid("tool_choice"),
    "bad_schema": _invalid("schema"),
    "bad_regex": _invalid("custom_inputs.regex"),
    "unknown_field": _invalid("custom_inputs.frobnicate"),
}

# Errors of the engine, translated.
BY_THE_ENGINE = {
    "long_prompt_plain": _invalid("9031 tokens"),
    # Status 200 with an error inside.
    "long_prompt_stream": _invalid("9031 tokens"),
    "max_tokens_too_large": _invalid("100031 tokens"),
    # A fault between gateway and engine is no fault of the caller.
    "missing_model": Refusal(500, "INTERNAL_ERROR", "engine"),
    "abort_request_victim_plain": Refusal(500, "INTERNAL_ERROR", "engine"),
    "apikey_missing_chat": Refusal(500, "INTERNAL_ERROR", "engine"),
    "apikey_missing_chat_stream": Refusal(500, "INTERNAL_ERROR", "engine"),
    "apikey_wrong_chat": Refusal(500, "INTERNAL_ERROR", "engine"),
}

# With a reasoning parser this engine ignores every grammar and answers with free text.
UNENFORCED = _invalid("reasoning parser")

# Streams that break off: the status is 200 and an error ends them.
BROKEN_STREAMS = {"abort_request_victim_stream"}

# Streams that never end; tests/contract/test_silence.py plays them.
ENDLESS = {"disconnect_victim_stream", "kill9_live_stream"}


def refusal(recorded: Recording) -> Refusal | None:
    """The error that the recorded question must get, if any."""
    if recorded.reasoning_parser and constrained(recorded):
        return UNENFORCED
    return BEFORE_THE_ENGINE.get(recorded.name) or BY_THE_ENGINE.get(recorded.name)


# Pairs whose stream lost text inside the engine, so that no repair can make it equal to the plain
# answer: what of the stream still is, and why the rest is not.
LOST_IN_THE_STREAM = {
    "A-tools_auto_broken_call_stream": (
        "the parser had sent the name of a call that never became one, and swallowed what "
        "followed: the text is a beginning of the plain one"
    ),
    "B-reasoning_stream_reasoning_false_stream": (
        "without a closing tag the parser kept the whole thought and never sent it: nothing "
        "came but the finish reason and the usage"
    ),
}

# Pairs whose two recordings are different answers. A GPU sums in another order when the prompt
# comes from the cache, and a near-tie between two words then falls the other way.
DIFFERENT_ANSWERS = {"D-reasoning_tool_required_stream"}
