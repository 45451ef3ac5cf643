"""Checks of what the model answers."""

import json

from mlflow.exceptions import MlflowException

from .outcome import NotApplicable, require
from .seen import AGENT, Seen
from .subject import GREEDY, QUESTION, Subject

_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
_TOOL_TALK = [
    {
        # A small model needs to see a call once.
        "role": "system",
        "content": "You call functions. Example: for the weather in Rome you answer "
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
    },
    {"role": "user", "content": "What is the weather in Paris?"},
]
_CLIENTS_FAULT = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_SECRET = "zebra-7f3a"  # noqa: S105  a word of the caller's that no error may repeat


def predict(subject: Subject) -> str:
    """A greedy question gets words."""
    answer = subject.answer
    require(answer.text.strip(), "the answer is empty", "Is the chat template the model's own?")
    return f"{answer.text[:60]!r}"


def stream(subject: Subject) -> str:
    """The pieces of a stream add up to the whole answer."""
    answer, streamed = subject.answer, subject.streamed
    require(
        subject.gives(lambda text: text == streamed.text),
        f"the stream gives {streamed.text[:60]!r}, predict {answer.text[:60]!r}",
    )
    require(streamed.pieces > 1, "the stream comes in one piece", "Is predict_stream a generator?")
    return f"{streamed.pieces} chunks"


def ids(subject: Subject) -> None:
    """One id for each answer, in every chunk, never given twice."""
    answer, streamed, other = subject.answer, subject.streamed, subject.ask()
    for seen in (answer, streamed, other):
        require(
            all(seen.ids) and seen.ids, "a message has no id", "MLflow 2.21 and later ask for it."
        )
    require(
        len(set(streamed.ids)) == 1,
        "the chunks of one message have different ids",
        "Clients join chunks by id.",
    )
    require(
        len({answer.ids[0], streamed.ids[0], other.ids[0]}) == 3,
        "two answers have the same id",
        "Each answer needs an id of its own.",
    )


def finish_and_usage(subject: Subject) -> str:
    """Why an answer ended and what it cost, whole and streamed."""
    short = subject.request(**{**GREEDY, "max_tokens": 3})
    for how, seen in (("predict", subject.ask(short)), ("predict_stream", subject.stream(short))):
        require(seen.finish == "length", f"{how}: an answer cut at 3 tokens says {seen.finish!r}")
        require(len(seen.usages) == 1, f"{how}: usage is given {len(seen.usages)} times, not once")
        prompt, completion, total = seen.usages[0]
        require(
            completion == 3 and prompt > 0 and total == prompt + completion,
            f"{how}: usage says {prompt} + {completion} = {total} for an answer of 3 tokens",
        )
    require(
        len(subject.streamed.finishes) == 1,
        f"a stream has {len(subject.streamed.finishes)} finish reasons, not one",
    )
    return f"{prompt} + {completion} tokens"


def tools(subject: Subject) -> str:
    """A forced tool call comes whole, with valid arguments."""
    body = subject.request(
        _TOOL_TALK, tools=[_WEATHER], tool_choice="required", temperature=0.0, max_tokens=200
    )
    try:
        answer, streamed = subject.ask(body), subject.stream(body)
    except MlflowException as error:
        if error.error_code in _CLIENTS_FAULT and "restart it" in str(error.message):
            # The engine was started without what tools need; the message says what to set.
            raise NotApplicable(str(error.message)) from None
        raise
    if not answer.calls and answer.finish == "length":
        raise NotApplicable("the model wrote no complete call within 200 tokens")
    for how, seen in (("predict", answer), ("predict_stream", streamed)):
        _check_calls(how, seen)
    names = [call[1:] for call in answer.calls]
    require(
        names == [call[1:] for call in streamed.calls],
        f"predict calls {names}, the stream {[call[1:] for call in streamed.calls]}",
    )
    return f"{answer.calls[0][1]}({answer.calls[0][2]})"


def _check_calls(how: str, seen: Seen) -> None:
    require(seen.calls, f"{how}: tool_choice required gave no call", "Set TOOL_CALL_PARSER.")
    require(seen.finish == "tool_calls", f"{how}: finish reason {seen.finish!r} with a tool call")
    require(len({call[0] for call in seen.calls}) == len(seen.calls), f"{how}: call ids repeat")
    for call_id, name, arguments in seen.calls:
        require(call_id, f"{how}: a call has no id")
        require(name == "get_weather", f"{how}: calls {name!r}, which was not offered")
        try:
            parsed = json.loads(arguments)
        except ValueError:
            parsed = None
        require(
            isinstance(parsed, dict), f"{how}: arguments are no JSON object: {arguments[:60]!r}"
        )


def errors(subject: Subject) -> str:
    """Bad requests fail with a code for the caller's fault, and repeat nothing of the caller's."""
    secret = [{"role": "user", "content": _SECRET}]
    cases = {
        "an unknown parameter": subject.request(secret, temperatur=0.0),
        "a negative temperature": subject.request(secret, temperature=-1.0),
        "no message": subject.request([]),
        "more tokens than the model has": subject.request(secret, max_tokens=10_000_000),
    }
    for what, body in cases.items():
        for how in ("predict", "predict_stream"):
            code, message = _refusal(subject, how, body)
            require(code in _CLIENTS_FAULT, f"{how} with {what} ends with {code}: {message[:100]}")
            require(_SECRET not in message, f"{how} with {what} repeats the caller's words")
            require("Traceback" not in message, f"{how} with {what} shows a stack trace")
    if subject.interface == AGENT:
        code, message = _refusal(
            subject, "predict", {"messages": [{**QUESTION[0], "mood": "good"}]}
        )
        require(code in _CLIENTS_FAULT, f"an unknown field of a message ends with {code}")
    return f"{len(cases)} kinds of bad requests"


def _refusal(subject: Subject, how: str, body: dict[str, object]) -> tuple[str, str]:
    try:
        subject.ask(body) if how == "predict" else subject.stream(body)
    except MlflowException as error:
        return error.error_code, str(error.message)
    except Exception as error:
        return type(error).__name__, str(error)
    return "an answer", ""
