"""The bodies of requests and answers, for the OpenAPI description."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from app.engines.phases import Phase
from app.gateway.error_forms import MLflowError, OpenAIError
from app.gateway.openai_relay import STREAMED
from app.schemas.chat_agent import ChatAgentRequest
from app.schemas.chat_agent_answer_types import ChatAgentChunk, Predictions
from app.schemas.mlflow_forms import WRAPPERS
from app.schemas.sampling import CustomInputs

JSONObject = dict[str, Any]

_QUESTION = [{"role": "user", "content": "Name three colours."}]
_EXAMPLE = {
    "messages": _QUESTION,
    "custom_inputs": {"temperature": 0.2, "max_tokens": 100},
}
_STREAM = (
    'data: {"id":"7c1f","delta":{"role":"assistant","content":"Red.","id":"msg_7c1f"},'
    '"finish_reason":"stop"}\n\ndata: [DONE]\n\n'
)
_TEXT = {"type": "string"}
_MESSAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"role": _TEXT, "content": {"type": ["string", "array", "null"]}},
        "required": ["role"],
    },
    "minItems": 1,
}
_WRAPPED = "WrappedRequest"
_READY = "Readiness"


def schemas() -> JSONObject:
    """Every schema that the description refers to, by name."""
    found: JSONObject = {}
    requests = models_json_schema(
        [(CustomInputs, "validation"), (ChatAgentRequest, "validation")],
        ref_template=_path("{model}"),
    )[1]
    found |= requests["$defs"]
    # The route takes it as an object and checks it in a second step, by itself.
    properties = found["ChatAgentRequest"]["properties"]
    properties["custom_inputs"] |= {"anyOf": [_reference("CustomInputs"), {"type": "null"}]}
    for form in (Predictions, ChatAgentChunk, MLflowError, OpenAIError):
        schema = TypeAdapter(form).json_schema(ref_template=_path("{model}"))
        found |= schema.pop("$defs", {})
        found[form.__name__] = schema
    return found | {_WRAPPED: _wrapped_request(), _READY: _readiness()}


def chat_agent_request() -> JSONObject:
    """What ``POST /invocations`` takes: a request, or one in MLflow's wrappings."""
    schema = {"anyOf": [_reference("ChatAgentRequest"), _reference(_WRAPPED)]}
    return {
        "required": True,
        "content": {"application/json": {"schema": schema, "example": _EXAMPLE}},
    }


def chat_agent_answer() -> JSONObject:
    """What it answers."""
    schema = {"anyOf": [_reference("ChatAgentResponse"), _reference("Predictions")]}
    failure = {
        "type": "object",
        "properties": {"error": _reference(MLflowError.__name__)},
        "required": ["error"],
    }
    pieces = [_reference("ChatAgentChunk"), failure]
    return {
        "application/json": {"schema": schema},
        "text/event-stream": {"schema": _events(pieces), "example": _STREAM},
    }


def relayed_request(path: str) -> JSONObject | None:
    """What the gateway itself asks of a request that it relays; None where there is no body."""
    if path.startswith("/v1/models") or path == "/v1/responses/{name}":
        return None
    schema: JSONObject = {
        "type": "object",
        "description": "As OpenAI documents it; the engine checks what is not mentioned here.",
        "properties": {
            "model": {
                "type": "string",
                "minLength": 1,
                "description": "One that GET /v1/models lists, or model:adapter.",
            },
            "stream": {"type": ["boolean", "null"]},
        },
        "required": ["model"],
    }
    media: JSONObject = {"schema": schema}
    if path in ("/invocations", "/v1/chat/completions"):
        schema["properties"]["messages"] = _MESSAGES
        schema["required"].append("messages")
    if path == "/invocations":
        # This server's model, whatever the request says.
        schema["properties"].pop("model")
        schema["required"].remove("model")
        media["example"] = {"messages": _QUESTION, "max_tokens": 100}
    return {"required": True, "content": {"application/json": media}}


def relayed_answer(path: str) -> JSONObject:
    """What the engine answers there."""
    content: JSONObject = {"application/json": {"schema": {"type": "object"}}}
    if path in STREAMED or path == "/invocations":
        content["text/event-stream"] = {"schema": _events([{"type": "object"}])}
    return content


def health_answers(path: str, retry_after: JSONObject) -> JSONObject:
    """The answers of the routes that tell how the server is, by status."""
    if path == "/health/ready":
        content = {"application/json": {"schema": _reference(_READY)}}
        return {
            "200": {"description": "Ready.", "content": content},
            "503": {"description": "Not ready.", "content": content, "headers": retry_after},
        }
    if path == "/health/live":
        live = {"type": "object", "properties": {"status": {"const": "live"}}}
        content = {"application/json": {"schema": live | {"required": ["status"]}}}
    elif path == "/metrics":
        kinds = ("text/plain", "application/openmetrics-text")
        content = {kind: {"schema": _TEXT} for kind in kinds}
    else:
        # MLflow's scoring server calls this JSON too, though it is an empty line or bare text.
        content = {"application/json": {}}
    return {"200": {"description": "Well.", "content": content}}


def error(*, by_openai: bool) -> JSONObject:
    """The body of every error, in the form of its part of the API."""
    form = OpenAIError if by_openai else MLflowError
    return {"application/json": {"schema": _reference(form.__name__)}}


def _events(pieces: list[JSONObject]) -> JSONObject:
    """One event of a stream, whose schema is that of each event (up to OpenAPI 3.1)."""
    piece = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": pieces},
    }
    data = {"anyOf": [{"const": "[DONE]", "description": "Always the last one."}, piece]}
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _wrapped_request() -> JSONObject:
    request = _reference("ChatAgentRequest")
    row = {"anyOf": [request, {"type": "array", "items": request, "minItems": 1, "maxItems": 1}]}
    split = {
        "type": "object",
        "properties": {
            "columns": {"type": "array"},
            "data": {"type": "array", "items": {"type": "array"}, "minItems": 1, "maxItems": 1},
        },
        "required": ["columns", "data"],
    }
    forms = {name: split if name == "dataframe_split" else row for name in WRAPPERS}
    return {
        "description": "One request in one of the forms of MLflow's scoring protocol.",
        "oneOf": [
            {"type": "object", "properties": {name: form}, "required": [name]}
            for name, form in forms.items()
        ],
    }


def _readiness() -> JSONObject:
    return {
        "description": "Where the engine is in its life.",
        "type": "object",
        "properties": {
            "phase": {"enum": [phase.value for phase in Phase]},
            "reason": _TEXT,
            "seconds": {"type": "number", "minimum": 0, "description": "Since it is there."},
            "shards": {"type": "string", "description": "Files of weights that are loaded."},
            "log": {"type": "array", "items": _TEXT, "description": "The engine's last lines."},
        },
        "required": ["phase", "reason", "seconds"],
    }


def _reference(name: str) -> JSONObject:
    return {"$ref": _path(name)}


def _path(name: str) -> str:
    return f"#/components/schemas/{name}"
