"""Just enough of HTTP/1.1 to read a request, so that answers can be written byte for byte."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Received:
    """A request as the engine got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    # Which recording answered it, and whether the client went away before the end.
    answered_with: str | None = None
    abandoned: bool = False
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        """The body as an object; None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rid(self) -> str | None:
        """The request id which the client chose, the one that /abort_request names."""
        body = self.json
        return body.get("rid") if isinstance(body, dict) else None

    @property
    def wants_stream(self) -> bool:
        """Whether the client asked for a stream."""
        body = self.json
        streams = self.path != "/v1/embeddings"  # which SGLang answers whole, whatever is asked
        return streams and isinstance(body, dict) and bool(body.get("stream"))


async def read_request(reader: asyncio.StreamReader) -> Received | None:
    """The next request of a connection, or None when the client closed it."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    request_line, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = request_line.split(" ", 2)
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target.partition("?")[0], headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # trailers say nothing that a test could want
    return body
