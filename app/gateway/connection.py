"""One client's connection: bounds that uvicorn does not have, and what only the connection knows.

Whoever opens connections and sends nothing, or a byte now and then, would hold them for ever:
uvicorn's only timer is for idle connections that are kept alive.

ASGI tells an application that its client has left only while it waits for a message, which takes
a task of its own for each request. The connection can simply call.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_EXTENSION = "chat_server.connection"
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n"
    b"server: chat-server\r\n\r\n"
)


class ClientConnection(Protocol):
    """What a request can ask the connection that it came on."""

    when_gone: Callable[[], None] | None
    """Called once, when the client has left."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the request's body is here."""

    def expect_more(self) -> None:
        """Read on, or an end would not be noticed."""

    def abort(self) -> None:
        """Drop the connection, with all that is still to be sent on it."""


def connection_of(scope: Scope) -> ClientConnection | None:
    """The connection that a request came on; None before other servers than ours."""
    found: ClientConnection | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


def connection_class(receive_timeout: float) -> type[HttpToolsProtocol]:
    """What uvicorn makes of each connection.

    Args:
        receive_timeout: seconds that a client may take for the headers of a request.
    """

    class Connection(HttpToolsProtocol):
        _headers_are_due: asyncio.TimerHandle | None = None
        when_gone: Callable[[], None] | None = None
        is_gone = False

        @property
        def has_whole_body(self) -> bool:
            return not self.cycle.more_body

        def expect_more(self) -> None:
            self.flow.resume_reading()

        def abort(self) -> None:
            self.transport.abort()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            scope = cast(Scope, self.scope)
            scope["extensions"] = {_EXTENSION: self}
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)
            self.is_gone = True
            if self.when_gone is not None:
                self.when_gone()

        def _expect_headers(self) -> None:
            if self._headers_are_due is None:
                self._headers_are_due = self.loop.call_later(receive_timeout, self._give_up)

        def _stop_timer(self) -> None:
            if self._headers_are_due is not None:
                self._headers_are_due.cancel()
                self._headers_are_due = None

        def _give_up(self) -> None:
            self._headers_are_due = None
            if not self.transport.is_closing():
                self.transport.write(_TOO_SLOW)
                self.transport.close()

    return Connection
