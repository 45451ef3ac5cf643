"""A caller of ASGI applications, without a server: full control over bodies, headers and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Headers = Iterable[tuple[bytes, bytes]]

JSON_TYPE = [(b"content-type", b"application/json")]


def http_scope(path: str = "/", method: str = "GET", headers: Headers = ()) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"test"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


@dataclass
class Caller:
    """Plays the server's part: hands the body over in parts, collects what is sent."""

    parts: list[bytes] = field(default_factory=lambda: [b""])
    leaves_in_body: bool = False
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)
    ended: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        if self.parts:
            part = self.parts.pop(0)
            more = bool(self.parts) or self.leaves_in_body
            return {"type": "http.request", "body": part, "more_body": more}
        if not self.leaves_in_body:
            await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        assert not self.ended, "sent after the end"
        if message["type"] == "http.response.start":
            assert not self.status, "a second status line"
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            assert self.status, "a body before the status line"
            self.written.append(message.get("body", b""))
            self.ended = not message.get("more_body", False)

    @property
    def body(self) -> bytes:
        return b"".join(self.written)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((v.decode() for k, v in self.headers if k.decode().lower() == name), None)


async def ask(
    app: Any,
    path: str = "/",
    method: str = "GET",
    *,
    headers: Headers = (),
    parts: Iterable[bytes] = (b"",),
) -> Caller:
    """One request to the application, taken to its end."""
    caller = Caller(list(parts))
    await app(http_scope(path, method, headers), caller.receive, caller.send)
    return caller
