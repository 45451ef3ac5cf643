"""Answers on the wire, and what happens to them when the client leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from app.errors import ChatServerError, Overloaded, RequestCancelled
from app.gateway.connection import connection_of
from app.gateway.error_forms import ErrorBody
from app.gateway.interruption import Interruptible
from app.schemas.chat_agent_answer import encode

T = TypeVar("T")


class ASCIIJSONResponse(Response):
    """JSON in ASCII: raw U+2028 and U+0085 break clients that split text lines."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Encode the content."""
        return encode(content)


def error_response(error: ChatServerError, body: ErrorBody) -> Response:
    """The error as a whole answer."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.kind.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.kind.status == 408:
        headers["Connection"] = "close"  # what is still to come is no new request
    if isinstance(error, Overloaded) and error.reason is not None:
        headers |= {"X-Overload-Reason": error.reason, "X-Queue-Depth": str(error.queued)}
    return ASCIIJSONResponse(body(error), status_code=error.kind.status, headers=headers)


async def unless_disconnected(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled when the client leaves.

    Raises:
        RequestCancelled: the client left.
    """
    block = Interruptible()
    stop_watching = watch_for_disconnect(request.scope, request.receive, block)
    try:
        with block:
            return await work
    finally:
        stop_watching()
    raise RequestCancelled("The client closed the request.")


def watch_for_disconnect(
    scope: Scope, receive: Receive, block: Interruptible
) -> Callable[[], object]:
    """Interrupt ``block`` when the client leaves, until what is returned is called."""
    connection = connection_of(scope)
    if connection is None:
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(block.interrupt)
        return gone.cancel
    watched = connection

    def stop() -> None:
        watched.when_gone = None

    if watched.is_gone:
        asyncio.get_running_loop().call_soon(block.interrupt)
    else:
        watched.when_gone = block.interrupt
        watched.expect_more()
    return stop


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
