"""``/v1/*``: OpenAI's routes, which the engine speaks itself; ``/invocations`` too if so set."""

from contextlib import nullcontext
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app.admission import Admission
from app.engines.openai_http import OpenAIEngine
from app.engines.relay import relay, relay_stream
from app.errors import InvalidRequest, MalformedRequest, NoSuchRoute, NotFound
from app.gateway.auth import caller_of
from app.gateway.bare_route import BareRoute
from app.gateway.bodies import parse_json, read_body, require_json
from app.gateway.error_forms import openai_error
from app.gateway.event_stream import EventStream
from app.gateway.media import check_media
from app.gateway.responses import unless_disconnected
from app.schemas.chat_agent import require_few_messages
from app.settings import Settings
from app.sglang_guard import check_survivable
from app.sglang_quirks import check_template_kwargs, mend_openai_messages

_GENERATE = ("chat/completions", "completions", "embeddings", "responses", "rerank", "score")
_READ = ("models", "models/{name:path}", "responses/{name}")
_CHAT = "/v1/chat/completions"
_RESPONSES = "/v1/responses"
STREAMED = frozenset({_CHAT, "/v1/completions", _RESPONSES})
"""Routes that can answer with a stream. On the others engines have no use for ``stream``."""


def routes(settings: Settings, engine: OpenAIEngine, admission: Admission) -> list[BareRoute]:
    """The routes, for one engine and the places at it."""

    async def read(request: Request) -> Response:
        """Relayed to the engine."""
        engine.info  # noqa: B018  raises while the engine is not up
        path: str = request.scope["path"]
        # Whoever resolves dots on the way would ask the engine's administrative routes.
        if not {".", ".."}.isdisjoint(path.split("/")):
            raise NoSuchRoute("No such path.")
        found = await relay(engine, "GET", quote(path), b"", nullcontext())
        return Response(found.body, media_type=found.content_type)

    async def generate(request: Request) -> Response:
        """Relayed to the engine, streamed when the body says so."""
        body, fields = await _read(request, settings)
        _check_model(fields, engine.info.models)
        return await answer(request, request.scope["path"], body, fields)

    async def invocations(request: Request) -> Response:
        """A chat completion, of this server's model whatever name the body has, or none."""
        body, fields = await _read(request, settings)
        if not _is_served(fields.get("model"), engine.info.models):
            fields["model"] = engine.info.models[0]
            body = msgspec.json.encode(fields)
        return await answer(request, _CHAT, body, fields)

    async def answer(
        request: Request, path: str, body: bytes, fields: dict[str, object]
    ) -> Response:
        if path.endswith("/completions"):
            check_survivable(fields, engine.info)
        check_template_kwargs(fields.get("chat_template_kwargs"), engine.info)
        turns = "input" if path == _RESPONSES else "messages"
        require_few_messages(fields.get(turns), settings.max_messages, turns)
        if path == _CHAT and mend_openai_messages(fields.get("messages"), engine.info):
            body = msgspec.json.encode(fields)
        stream = fields.get("stream")
        if not isinstance(stream, bool | None):
            raise InvalidRequest("'stream' must be true or false.", field="stream")
        await check_media(fields, settings.allowed_media_hosts)
        place = admission.slot(caller_of(request.scope))
        if stream and path in STREAMED:
            return EventStream(
                relay_stream(engine, path, body, place),
                error_body=openai_error,
                patience=settings.keep_alive_interval,
                slow_after=settings.slow_client_timeout,
                done=b"",
            )
        whole = await unless_disconnected(request, relay(engine, "POST", path, body, place))
        return Response(whole.body, media_type=whole.content_type)

    found = [(f"/v1/{path}", generate, "POST") for path in _GENERATE]
    found += [(f"/v1/{path}", read, "GET") for path in _READ]
    if settings.invocations == "openai":
        found += [
            (path, invocations, "POST")
            for path in ("/invocations", "/serving-endpoints/{name}/invocations")
        ]
    return [
        BareRoute(path, endpoint, methods=[method], tags=["OpenAI"])
        for path, endpoint, method in found
    ]


async def _read(request: Request, settings: Settings) -> tuple[bytes, dict[str, object]]:
    require_json(request.headers.get("content-type"))
    body = await read_body(request, settings.max_body_bytes, settings.receive_timeout)
    fields = parse_json(body)
    if not isinstance(fields, dict):
        raise MalformedRequest("The body must be a JSON object.")
    return body, fields


def _check_model(fields: dict[str, object], served: tuple[str, ...]) -> None:
    """SGLang echoes any model name, and some versions answer 500 when there is none."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest(
            f"'model' is missing: this server has {_listed(served)}.", field="model"
        )
    if not _is_served(model, served):
        raise NotFound(f"No such model here: this server has {_listed(served)}.", field="model")


def _is_served(model: object, served: tuple[str, ...]) -> bool:
    # An adapter is named as "model:adapter".
    return isinstance(model, str) and (model in served or model.split(":")[0] in served)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names[:10])
