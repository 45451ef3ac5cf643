"""Puts the HTTP application together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app import __version__
from app.engines.lifecycle import ManagedEngine
from app.engines.openai_http import OpenAIEngine
from app.errors import ChatServerError, MethodNotAllowed, NoSuchRoute
from app.gateway import health, invocations, metrics, openai_relay
from app.gateway.auth import OPEN_ROUTES, BearerAuth
from app.gateway.bare_route import BareRoute, Shortcut
from app.gateway.documentation import document
from app.gateway.error_forms import ErrorForm, error_body_for, openai_everywhere
from app.gateway.keys import KeyRing
from app.gateway.playground import Playground
from app.gateway.request_log import RequestLog
from app.gateway.responses import error_response
from app.runtime import build_admission
from app.service import ChatService
from app.settings import Settings


def create_app(settings: Settings, engine: ManagedEngine) -> FastAPI:
    """The server's HTTP application. It starts the engine with itself and stops it too."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        try:
            yield
        finally:
            await engine.stop()

    app = FastAPI(
        title="chat-server",
        version=__version__,
        summary="MLflow ChatAgent and OpenAI chat in front of SGLang",
        lifespan=lifespan,
        redoc_url=None,
        # FastAPI's own spans, metrics and logs: it would look for their exporters at each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    admission = build_admission(settings)
    error_form: ErrorForm = error_body_for
    bare: list[BareRoute] = []
    if settings.invocations == "chat-agent":
        service = ChatService(engine, admission, settings.max_messages)
        bare += invocations.routes(settings, service)
    else:
        error_form = openai_everywhere
    if isinstance(engine, OpenAIEngine):
        bare += openai_relay.routes(settings, engine, admission)
    app.router.routes += bare
    app.include_router(health.router(engine, show_log=not settings.asks_for_key))
    counts = metrics.Metrics(engine, admission)
    app.include_router(metrics.router(counts))
    open_routes = OPEN_ROUTES
    if settings.playground and settings.invocations == "chat-agent":
        playground = Playground()
        app.router.routes += playground.routes()
        open_routes |= playground.paths
    document(app, settings)
    _word_errors(app, error_form)
    app.add_middleware(Shortcut, routes=bare, error_form=error_form)
    if settings.asks_for_key:
        key = settings.api_key.get_secret_value() if settings.api_key else None
        keys = KeyRing(key, settings.api_key_file)
        app.add_middleware(BearerAuth, keys=keys, error_form=error_form, open_routes=open_routes)
    app.add_middleware(RequestLog, metrics=counts, error_form=error_form)
    return app


def _word_errors(app: FastAPI, error_form: ErrorForm) -> None:
    """Give every error the form of the part of the API that it happened in."""

    @app.exception_handler(ChatServerError)
    async def on_error(request: Request, error: ChatServerError) -> Response:
        return error_response(error, error_form(request.url.path))

    @app.exception_handler(HTTPException)
    async def on_http_exception(request: Request, found: HTTPException) -> Response:
        """Unknown paths and wrong methods, which Starlette itself finds."""
        error = (
            NoSuchRoute("No such path.")
            if found.status_code == 404
            else MethodNotAllowed("This path does not take this method.")
        )
        response = error_response(error, error_form(request.url.path))
        response.headers.update(found.headers or {})
        return response
