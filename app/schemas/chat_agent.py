"""MLflow's ChatAgent request, as the gateway takes it.

The rules are those that MLflow's signature enforces in front of a logged ChatAgent, which are
stricter than its pydantic classes (``mlflow/types/agent.py``; an unknown key in a message is
refused), with three kindnesses: ``context: null`` counts as absent, text content parts are
joined, and the ``name`` of a tool message is looked up in the conversation.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.errors import InvalidRequest, MalformedRequest
from app.schemas.validation import StrictModel

ROLES = ("system", "developer", "user", "assistant", "tool")


def _join_text_parts(content: object) -> object:
    """OpenAI's list of text parts as one string; other things stay as they are."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        if not (isinstance(part, dict) and part.get("type") == "text"):
            raise ValueError(
                "may hold text parts only; for images use POST /v1/chat/completions with a "
                "model that reads them"
            )
        if not isinstance(part.get("text"), str):
            raise ValueError("has a text part without a 'text' string")
        texts.append(part["text"])
    return "".join(texts)


class TextPart(BaseModel):
    """One part of a content in OpenAI's form, for the description of the API."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text"]
    text: str


class FunctionCall(StrictModel):
    """The function that a tool call names."""

    name: str = Field(min_length=1)
    arguments: str = Field(description="JSON text of an object.")


class ToolCall(StrictModel):
    """A call that the assistant made in an earlier turn."""

    id: str = Field(min_length=1)
    type: Literal["function"]
    function: FunctionCall


class Message(StrictModel):
    """One turn of the conversation."""

    # A plain string, because a wrong role is explained by ``conversation.py``.
    role: str = Field(json_schema_extra={"enum": list(ROLES)})
    content: Annotated[
        str | None,
        BeforeValidator(_join_text_parts, json_schema_input_type=str | list[TextPart] | None),
    ] = None
    name: str | None = None
    id: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    attachments: dict[str, str] | None = None


class Context(StrictModel):
    """Who is talking, in which conversation."""

    conversation_id: str | None = None
    user_id: str | None = None


class ChatAgentRequest(BaseModel):
    """Body of ``POST /invocations``. Unknown top-level keys are kept apart, for a warning."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    messages: list[Message] = Field(min_length=1)
    context: Context | None = None
    custom_inputs: dict[str, object] | None = Field(
        None, description="Generation parameters, tools and structured output; see the README."
    )
    stream: bool | None = False

    @property
    def ignored_fields(self) -> list[str]:
        """Top-level keys that have no effect (Databricks' own are none of our business)."""
        return sorted(set(self.model_extra or {}) - {"databricks_options"})


def require_few_messages(messages: object, limit: int, field: str = "messages") -> None:
    """Refuse a list that is too long before anything looks into it.

    Raises:
        InvalidRequest: more than ``limit``.
    """
    if isinstance(messages, list) and len(messages) > limit:
        raise InvalidRequest(
            f"'{field}' has {len(messages)} entries; this server takes {limit} (MAX_MESSAGES).",
            field=field,
        )


def require_messages(body: dict[str, object]) -> None:
    """Tell a body that is no chat request at all from one with a mistake, as MLflow does.

    Raises:
        InvalidRequest: the body is a request of another kind.
        MalformedRequest: the body has no ``messages``.
    """
    if "messages" in body:
        return
    other = next((name for name in ("prompt", "input") if name in body), None)
    if other:
        raise InvalidRequest(
            f"'{other}' is not a field of a ChatAgent request: send 'messages'.", field=other
        )
    raise MalformedRequest(
        'Send {"messages": [{"role": "user", "content": "…"}]}, or the same under inputs, '
        "dataframe_records or dataframe_split: 'messages' is missing.",
        field="messages",
    )
