"""What ChatAgent's answers look like: the types that the code which words them is checked against.

The description of the API is made from them, so it can't say anything else than the code does.
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12


class CalledFunction(TypedDict):
    """Name of a function, and its arguments as the JSON text of an object."""

    name: str
    arguments: str


class AnswerToolCall(TypedDict):
    """A call in OpenAI's form, always whole."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(TypedDict):
    """The one message of an answer, or a piece of it in a stream."""

    role: Literal["assistant"]
    content: str
    id: str
    tool_calls: NotRequired[list[AnswerToolCall]]


class CachedTokens(TypedDict):
    """How much of the prompt the engine had in its cache."""

    cached_tokens: int


class TokenUsage(TypedDict):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: NotRequired[CachedTokens]


class Logprobs(TypedDict):
    """Log-probabilities of the answer's tokens, as the engine gives them."""

    content: list[object]


class CustomOutputs(TypedDict):
    """What ChatAgent's schema has no place of its own for."""

    reasoning_content: NotRequired[str]
    logprobs: NotRequired[Logprobs]


class Closing(TypedDict):
    """What is known at the end of an answer only."""

    finish_reason: str
    usage: NotRequired[TokenUsage]
    custom_outputs: NotRequired[CustomOutputs]


class ChatAgentResponse(Closing):
    """A whole answer."""

    id: str
    messages: list[AnswerMessage]


class ChatAgentChunk(TypedDict):
    """A piece of a streamed answer; the fields of its end are on the last piece."""

    id: str
    delta: AnswerMessage
    finish_reason: NotRequired[str]
    usage: NotRequired[TokenUsage]
    custom_outputs: NotRequired[CustomOutputs]


class Predictions(TypedDict):
    """The answer to a request that came in one of MLflow's wrappings."""

    predictions: ChatAgentResponse
