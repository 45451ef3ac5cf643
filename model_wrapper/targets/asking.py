"""One question in the words of each interface, and the text in its answers. Pure functions."""

from typing import Any

from model_wrapper.targets.base import JSONObject, State, TargetError

INTERFACES = ("chat-agent", "responses-agent", "chat-model", "openai")
"""What :func:`question`, :func:`text_of` and :func:`piece_of` know."""

# What an endpoint's task says of the schema, where the model itself can't be read.
_OF_TASK = {
    "agent/v2/chat": "chat-agent",
    "agent/v1/responses": "responses-agent",
    "llm/v1/chat": "openai",
}
# Agents are logged under llm/v1/chat too, so that task says less than it seems to.
TELLING_TASKS = ("agent/v2/chat", "agent/v1/responses")


def interface_of_task(state: State) -> str:
    """The interface that an endpoint's task stands for.

    Raises:
        TargetError: it is none of ours.
    """
    found = _OF_TASK.get(state.task or "")
    if found is None:
        raise TargetError(
            f"{state.endpoint} has the task {state.task!r}: name the schema with --interface", True
        )
    return found


def question(
    interface: str,
    text: str,
    *,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
) -> JSONObject:
    """The body of a request."""
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    limit = "max_output_tokens" if interface == "responses-agent" else "max_tokens"
    parameters = {limit: max_tokens, "temperature": temperature}
    given: JSONObject = {name: value for name, value in parameters.items() if value is not None}
    if interface == "chat-agent":
        return {"messages": messages} | ({"custom_inputs": given} if given else {})
    if interface == "responses-agent":
        return {"input": messages, **given}
    return {"messages": messages, **given}


def text_of(interface: str, answer: JSONObject) -> str:
    """What the model said in a whole answer.

    Raises:
        TargetError: it has not the form of this interface.
    """
    found: Any = answer
    try:
        if interface == "chat-agent":
            return "".join(message["content"] or "" for message in found["messages"])
        if interface == "responses-agent":
            return "".join(
                part["text"]
                for item in found["output"]
                if item["type"] == "message"
                for part in item["content"]
            )
        return found["choices"][0]["message"]["content"] or ""
    except (KeyError, IndexError, TypeError):
        raise TargetError(f"the answer is not one of a {interface}: {str(answer)[:300]}") from None


def piece_of(interface: str, event: JSONObject) -> str:
    """What the model says in one event of a stream.

    Raises:
        TargetError: the event is an error, or has not the form of this interface.
    """
    found: Any = event
    if (error := found.get("error")) or found.get("type") == "error":
        raise TargetError(f"the stream ended with an error: {error or found.get('message')}")
    try:
        if interface == "chat-agent":
            return found["delta"]["content"] or ""
        if interface == "responses-agent":
            return found["delta"] if found["type"] == "response.output_text.delta" else ""
        # The last chunk of a stream may have usage and no choice.
        return "".join(choice["delta"].get("content") or "" for choice in found["choices"])
    except (KeyError, TypeError, AttributeError):
        raise TargetError(f"the event is not one of a {interface}: {str(event)[:300]}") from None
