"""An id for every request, its log line and its metrics, and a last net under exceptions."""

import logging
import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import public_error
from app.gateway.error_forms import ErrorForm, error_body_for
from app.gateway.metrics import Metrics
from app.gateway.playground import FILES
from app.gateway.responses import error_response
from app.ids import new_id
from app.service import Chat

log = logging.getLogger(__name__)

_HEADER = b"x-request-id"
_SANE_ID = re.compile(rb"[\w.:-]{1,128}\Z", re.ASCII)
_QUIET = frozenset({"/ping", "/health", "/health/live", "/health/ready", "/metrics"})


def note(scope: Scope, chat: Chat) -> None:
    """Remember for the log line whom this request is for. Prompts are never logged."""
    facts = scope.setdefault("state", {}).setdefault("log_facts", {})
    facts |= {
        "answer": chat.answer_id,
        "conversation": _printable(chat.conversation_id),
        "user": _printable(chat.user_id),
    }


class RequestLog:
    """ASGI middleware, the outermost: each request is timed here, once.

    Args:
        app: what answers.
        metrics: where each request is counted.
        error_form: how errors are worded.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, error_form: ErrorForm = error_body_for
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._error_form = error_form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        facts: dict[str, Any] = scope.setdefault("state", {}).setdefault("log_facts", {})
        started = time.monotonic()
        self._metrics.begin()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (_HEADER, request_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            log.exception("request %s failed", request_id.decode())
            if not status:
                response = error_response(public_error(error), self._error_form(scope["path"]))
                await response(scope, receive, send_with_id)
        finally:
            seconds = time.monotonic() - started
            self._metrics.end(scope, status, seconds)
            quiet = scope["path"] in _QUIET or (
                scope["path"].startswith(FILES) and status < 400  # a dozen for each visit
            )
            if not quiet or status >= 500:
                details = "".join(f" {key}={value}" for key, value in facts.items() if value)
                log.log(
                    logging.DEBUG if quiet else logging.INFO,
                    "%s %s %d %.0f ms id=%s%s",
                    scope["method"],
                    _printable(scope["path"]),
                    status,
                    1000 * seconds,
                    request_id.decode(),
                    details,
                )


def _request_id(scope: Scope) -> bytes:
    """The caller's own id if it is harmless, else a new one."""
    for name, value in scope["headers"]:
        if name == _HEADER and _SANE_ID.match(value):
            return bytes(value)
    return new_id().encode()


def _printable(text: str | None) -> str | None:
    """A caller's text as one word of a log line: nothing that looks like more words, no flood."""
    return text and ascii(text[:100])[1:-1].replace(" ", r"\x20")
