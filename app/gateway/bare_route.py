"""Routes on the hot path: described by FastAPI, found and run without it."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import ChatServerError
from app.gateway.error_forms import ErrorForm
from app.gateway.responses import error_response

Endpoint = Callable[[Request], Awaitable[Response]]


class BareRoute(APIRoute):
    """A route whose endpoint takes the request as it is and returns the response as it is.

    FastAPI would look for dependencies, parameters and a body to parse before each call, and wrap
    it in exit stacks: half of what a request costs here, for nothing.
    """

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = request_response(endpoint)


class Shortcut:
    """ASGI middleware, the innermost: a table of the bare routes whose paths have no parameters.

    Before a router finds them, a request goes through two layers that catch exceptions and one
    that keeps an exit stack, and meets each of the routes in turn.

    Args:
        app: who answers everything else.
        routes: to be looked up.
        error_form: how errors are worded.
    """

    def __init__(self, app: ASGIApp, routes: list[BareRoute], error_form: ErrorForm) -> None:
        self._app = app
        self._error_form = error_form
        self._routes = {
            (method, route.path): route
            for route in reversed(routes)  # of two equal ones the first counts
            if not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        route = None
        if scope["type"] == "http":
            route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route  # as a router does, for the metrics
        try:
            response = await route.endpoint(Request(scope, receive, send))
        except ChatServerError as error:
            response = error_response(error, self._error_form(scope["path"]))
        await response(scope, receive, send)
