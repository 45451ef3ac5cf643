"""The OpenAPI description: what FastAPI can't find out, as the routes read and word by themselves.

It is made when it is first asked for, from the types and tables that the routes themselves use.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.errors import (
    ChatServerError,
    DeadlineExceeded,
    EngineFailed,
    EngineUnavailable,
    InvalidRequest,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    RequestTimeout,
    Unauthenticated,
    UnsupportedMediaType,
    kind_of,
)
from app.gateway import described_bodies as bodies
from app.gateway.auth import OPEN_ROUTES
from app.settings import Settings

JSONObject = dict[str, Any]
ErrorClasses = tuple[type[ChatServerError], ...]

_OF_THE_ENGINE: ErrorClasses = (
    *(InvalidRequest, NotFound, Overloaded),
    *(EngineFailed, EngineUnavailable, DeadlineExceeded),
)
_OF_A_BODY: ErrorClasses = (RequestTimeout, PayloadTooLarge, UnsupportedMediaType)

_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which the same request may be sent again.",
        "schema": {"type": "integer", "minimum": 0},
    }
}
_WARNING = {
    "X-Warning": {
        "description": "What in the request has no effect.",
        "schema": {"type": "string"},
    }
}


def document(app: FastAPI, settings: Settings) -> None:
    """Have the application describe itself in full."""

    def openapi() -> JSONObject:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app, settings)
        return app.openapi_schema

    # FastAPI's documented way to extend the description.
    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI, settings: Settings) -> JSONObject:
    description: JSONObject = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = description.setdefault("components", {})
    components["schemas"] = bodies.schemas()
    if settings.asks_for_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"key": []}]
    for path, operations in description["paths"].items():
        for operation in operations.values():
            _describe_operation(path, operation, settings)
    return description


def _describe_operation(path: str, operation: JSONObject, settings: Settings) -> None:
    if "{name}" in path:
        operation["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    by_openai = path.startswith("/v1/") or settings.invocations == "openai"
    errors: ErrorClasses = ()
    if path == "/invocations" and not by_openai:
        errors = _OF_THE_ENGINE + _OF_A_BODY
        operation["requestBody"] = bodies.chat_agent_request()
        operation["responses"]["200"] = {
            "description": 'The answer; with `"stream": true` its pieces, each a ChatAgentChunk.',
            "content": bodies.chat_agent_answer(),
            "headers": _WARNING,
        }
    elif path == "/invocations" or path.startswith("/v1/"):
        errors = _OF_THE_ENGINE
        operation["responses"]["200"] = {
            "description": "The engine's answer.",
            "content": bodies.relayed_answer(path),
        }
        if (request := bodies.relayed_request(path)) is not None:
            errors += _OF_A_BODY
            operation["requestBody"] = request
    else:
        operation["responses"] = bodies.health_answers(path, _RETRY_AFTER)
    if settings.asks_for_key:
        if path in OPEN_ROUTES:
            operation["security"] = []
        else:
            errors += (Unauthenticated,)
    operation["responses"] |= _error_responses(errors, by_openai=by_openai)


def _error_responses(errors: Iterable[type[ChatServerError]], *, by_openai: bool) -> JSONObject:
    """The answers for some errors, by status."""
    responses: JSONObject = {}
    for error in sorted(errors, key=lambda each: kind_of(each).status):
        kind = kind_of(error)
        responses[str(kind.status)] = {
            "description": (error.__doc__ or "").splitlines()[0],
            "content": bodies.error(by_openai=by_openai),
        }
        if kind.retryable:
            responses[str(kind.status)]["headers"] = _RETRY_AFTER
    return responses
