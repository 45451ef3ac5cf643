"""The OpenAPI description of ``POST /invocations``, whose body the route reads by itself."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from app.schemas.chat_agent import ChatAgentRequest
from app.schemas.sampling import CustomInputs

_EXAMPLE = {
    "messages": [{"role": "user", "content": "Name three colours."}],
    "custom_inputs": {"temperature": 0.2, "max_tokens": 100},
}


def document(app: FastAPI) -> None:
    """Add the request schema to what FastAPI finds out by itself."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    # FastAPI's documented way to extend the description.
    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for model in (CustomInputs, ChatAgentRequest):
        schemas |= _schemas_of(model)
    request = schemas["ChatAgentRequest"]
    request["properties"]["custom_inputs"] = {"$ref": _reference("CustomInputs")}
    description["paths"]["/invocations"]["post"]["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": _reference("ChatAgentRequest")},
                "example": _EXAMPLE,
            }
        },
    }
    return dict(description)


def _schemas_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_reference("{model}"))
    definitions: dict[str, Any] = schema.pop("$defs", {})
    return definitions | {model.__name__: schema}


def _reference(name: str) -> str:
    return f"#/components/schemas/{name}"
