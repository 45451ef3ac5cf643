"""OpenAI chat completions as they come over the wire, translated to events and errors.

Shapes differ between engines and versions (roles that repeat, ``content: null``, two finish
chunks, usage on a chunk with or without choices); events are the same for all of them.
"""

import re

import msgspec

from app.errors import (
    ChatServerError,
    EngineFailed,
    EngineUnavailable,
    InvalidRequest,
    NotFound,
    Overloaded,
)
from app.events import (
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    Usage,
)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    # vLLM's newer name of the same thing.
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Logprobs(msgspec.Struct):
    content: list[object] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    total_tokens: int = 0
    prompt_tokens_details: _CachedTokens | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()

    @property
    def error_object(self) -> bytes | None:
        """JSON of the error, if the engine sent one in place of a completion."""
        error = bytes(self.error)
        return error if error and error != b"null" else None


class _Error(msgspec.Struct):
    message: str = ""
    code: int | str | None = None


_decode_completion = msgspec.json.Decoder(_Completion).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def completion_events(data: bytes) -> list[Event]:
    """Events of one chunk of a stream, or of a whole plain answer.

    Raises:
        ChatServerError: the chunk is an error, or not a completion at all.
    """
    try:
        completion = _decode_completion(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineFailed("The engine sent something that is no chat completion.") from error
    if (error_object := completion.error_object) is not None:
        raise streamed_error(error_object)
    events: list[Event] = []
    if completion.choices:
        choice = completion.choices[0]
        message = choice.delta or choice.message
        if message is not None:
            _message_events(message, events)
        if choice.logprobs is not None and choice.logprobs.content:
            events.append(TokenLogprobs(choice.logprobs.content))
        if choice.finish_reason:
            events.append(Finished(choice.finish_reason))
    if completion.usage is not None:
        events.append(_usage(completion.usage))
    return events


def _message_events(message: _Message, events: list[Event]) -> None:
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        events.append(ReasoningDelta(reasoning))
    if message.content:
        events.append(TextDelta(message.content))
    for call in message.tool_calls or ():
        function = call.function or _Function()
        events.append(ToolCallDelta(call.id, function.name, function.arguments or ""))


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens or 0,
        total_tokens=usage.total_tokens,
        cached_tokens=details.cached_tokens if details else None,
    )


def error_in_event(data: bytes) -> ChatServerError | None:
    """The error that an event of a stream is, if it is one."""
    error_object = _nested_error(data)
    return streamed_error(error_object) if error_object is not None else None


def streamed_error(data: bytes) -> ChatServerError:
    """The error in an event ``{"error": {…}}`` of a stream that began with status 200."""
    error = _read_error(data)
    status = error.code if isinstance(error.code, int) else 500
    return engine_error(status, error.message)


def http_error(status: int, body: bytes, retry_after: str | None = None) -> ChatServerError:
    """The error for an engine's answer with a status other than 200."""
    error = _read_error(body)
    if not error.message:
        nested = _nested_error(body)
        error = _read_error(nested) if nested else error
    seconds = int(retry_after) if retry_after and retry_after.isdecimal() else None
    return engine_error(status, error.message, retry_after=seconds)


def engine_error(status: int, message: str, *, retry_after: int | None = None) -> ChatServerError:
    """Which of our errors an engine's status stands for, with a message fit for callers."""
    if status == 404:
        return NotFound("The engine has no such model or route.")
    if status == 429:
        return Overloaded("The engine takes no more requests now.", retry_after=retry_after)
    if status in (502, 503, 504):
        return EngineUnavailable("The engine can't take requests now.", retry_after=retry_after)
    if status in (400, 413, 422):
        if "'abort'" in message:
            # SGLang 0.4.6 reports an aborted stream as a validation error of its own model.
            return EngineFailed("The engine gave the request up before its end.")
        reason = public_reason(message)
        return InvalidRequest(reason or "The engine refused the request; its log says why.")
    return EngineFailed("The engine failed on this request; the server's log has the details.")


# Engine messages that tell the caller something useful and hold nothing but numbers and names
# of parameters. Others may quote the prompt, a path or a stack trace.
_NUMBER = r"-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?"
_PARAMETER = (
    r"(?:temperature|top_p|top_k|min_p|(?:max|min)_(?:new_)?tokens|sampling_seed"
    r"|(?:frequency|presence|repetition)_penalty)"
)
_RULE = (
    r"(?:(?:a )?(?:non-negative|positive)(?: finite number)?"
    rf"|(?:-1 \(disable\) or )?at least {_NUMBER}"
    rf"|in [\[(]{_NUMBER}, (?:{_NUMBER}|max_new_tokens(?:\(\d{{1,20}}\))?)[\])])"
)
_PUBLIC = re.compile(
    r"(?:The input \(\d+ tokens\) is longer than the model's context length \(\d+ tokens\)"
    r"|Requested token count exceeds the model's maximum context length of \d+ tokens"
    rf"|{_PARAMETER} must be {_RULE}(?:, got {_NUMBER})?)\.?"
    r"(?: You requested a total of \d+ tokens: \d+ tokens from the input messages and \d+ tokens"
    r" for the completion\. Please reduce the number of tokens in the input messages or the"
    r" completion to fit within the limit\.)?"
)


def public_reason(message: str) -> str | None:
    """The engine's message if a caller may see it."""
    match = _PUBLIC.match(message)
    return match.group() if match else None


def _read_error(data: bytes) -> _Error:
    try:
        return _decode_error(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Error()


def _nested_error(data: bytes) -> bytes | None:
    try:
        return _decode_completion(data).error_object
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
