"""The API key, asked for on every route but those that tell whether the server is well."""

from collections.abc import Set

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import Unauthenticated
from app.gateway.error_forms import ErrorForm, error_body_for
from app.gateway.keys import KeyRing
from app.gateway.responses import error_response

_CALLER = "caller"
OPEN_ROUTES = frozenset({"/ping", "/health", "/health/live", "/health/ready"})


def caller_of(scope: Scope) -> str | None:
    """Whose key the request came with, as a hash of it; None where no key is asked for."""
    caller: str | None = scope.get("state", {}).get(_CALLER)
    return caller


class BearerAuth:
    """ASGI middleware.

    Args:
        app: who answers.
        keys: one of which is asked for.
        error_form: how the refusal is worded.
        open_routes: paths that need no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyRing,
        error_form: ErrorForm = error_body_for,
        open_routes: Set[str] = OPEN_ROUTES,
    ) -> None:
        self._app = app
        self._open_routes = open_routes
        self._error_form = error_form
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, or answer 401."""
        if scope["type"] != "http" or scope["path"] in self._open_routes or self._allows(scope):
            await self._app(scope, receive, send)
            return
        error = Unauthenticated("Send the API key as 'Authorization: Bearer …'.")
        await error_response(error, self._error_form(scope["path"]))(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, token = value.partition(b" ")
                owner = self._keys.owner(token.strip()) if scheme.lower() == b"bearer" else None
                if owner is not None:
                    scope.setdefault("state", {})[_CALLER] = owner
                return owner is not None
        return False
