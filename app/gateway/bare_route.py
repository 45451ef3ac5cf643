"""Routes on the hot path: described by FastAPI, run by Starlette."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

Endpoint = Callable[[Request], Awaitable[Response]]


class BareRoute(APIRoute):
    """A route whose endpoint takes the request as it is and returns the response as it is.

    FastAPI would look for dependencies, parameters and a body to parse before each call, and wrap
    it in exit stacks: half of what a request costs here, for nothing.
    """

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = request_response(endpoint)
