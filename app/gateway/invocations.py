"""``POST /invocations``: MLflow's ChatAgent, plain and streamed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.gateway.auth import caller_of
from app.gateway.bare_route import BareRoute
from app.gateway.bodies import parse_json, read_body, require_json
from app.gateway.error_forms import mlflow_error
from app.gateway.event_stream import EventStream
from app.gateway.request_log import note
from app.gateway.responses import ASCIIJSONResponse, unless_disconnected
from app.schemas.chat_agent_answer import ChunkEncoder, response
from app.schemas.mlflow_forms import unwrap
from app.service import Chat, ChatService, Text
from app.settings import Settings


def routes(settings: Settings, service: ChatService) -> list[BareRoute]:
    """The route under its two names, for one service."""

    async def invocations(request: Request) -> Response:
        """A ChatAgentRequest in, a ChatAgentResponse out; events with ``"stream": true``."""
        require_json(request.headers.get("content-type"))
        content = await read_body(request, settings.max_body_bytes, settings.receive_timeout)
        body, wrapped = unwrap(parse_json(content))
        chat = service.prepare(body)
        note(request.scope, chat)
        caller = caller_of(request.scope)
        headers = {"X-Warning": "; ".join(chat.warnings)} if chat.warnings else {}
        if chat.stream:
            return EventStream(
                _frames(service, chat, caller),
                error_body=mlflow_error,
                patience=settings.keep_alive_interval,
                slow_after=settings.slow_client_timeout,
                headers=headers,
            )
        answer = await unless_disconnected(request, service.complete(chat, caller))
        told = response(answer, chat.answer_id)
        return ASCIIJSONResponse({"predictions": told} if wrapped else told, headers=headers)

    options: dict[str, Any] = {"methods": ["POST"], "tags": ["ChatAgent"]}
    # The second path is where Databricks' own clients look for an endpoint of any name, so that
    # DATABRICKS_HOST is all they need to be told.
    return [
        BareRoute("/invocations", invocations, summary="Ask the model", **options),
        BareRoute(
            "/serving-endpoints/{name}/invocations", invocations, include_in_schema=False, **options
        ),
    ]


async def _frames(
    service: ChatService, chat: Chat, caller: str | None
) -> AsyncGenerator[bytes, None]:
    encoder = ChunkEncoder(chat.answer_id)
    async with aclosing(service.stream(chat, caller)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Text):
                yield encoder.text(piece.text)
            else:
                yield encoder.last(piece.text, piece.answer)
