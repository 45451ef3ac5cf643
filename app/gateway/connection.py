"""One client's connection: bounds that uvicorn does not have.

Whoever opens connections and sends nothing, or a byte now and then, would hold them for ever:
uvicorn's only timer is for idle connections that are kept alive.
"""

import asyncio
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_ABORT = "chat_server.abort"
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n"
    b"server: chat-server\r\n\r\n"
)


def connection_class(receive_timeout: float) -> type[HttpToolsProtocol]:
    """What uvicorn makes of each connection.

    Args:
        receive_timeout: seconds that a client may take for the headers of a request.
    """

    class Connection(HttpToolsProtocol):
        _headers_are_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            scope = cast(Scope, self.scope)
            scope["extensions"] = {_ABORT: self.transport.abort}
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

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


def abort_connection(scope: Scope) -> None:
    """Drop the connection that a request came on, with all that is still to be sent on it."""
    abort = scope.get("extensions", {}).get(_ABORT)
    if abort is not None:
        abort()
