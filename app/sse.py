"""Server-sent events as bytes: reading them from an engine and writing our own.

Lines end at LF, CR or CRLF only. Text-mode line splitters also break at U+2028 and U+0085,
which are ordinary characters inside JSON, so the decoder works on bytes.
See https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"

# A blank line between events means nothing to any client. A comment line (": ping"), which the
# standard has for this, makes mlflow.deployments raise.
KEEP_ALIVE = b"\n"


class SSEDecoder:
    """Incremental decoder: bytes in, the ``data`` of complete events out."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the data of every event that they complete."""
        buffer = self._buffer + chunk
        if b"\r" in buffer:
            # A CR at the very end may be the first half of a CRLF: keep it for the next feed.
            tail = b"\r" if buffer.endswith(b"\r") else b""
            body = buffer[:-1] if tail else buffer
            buffer = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        lines = buffer.split(b"\n")
        self._buffer = lines.pop()
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events


def encode_event(data: bytes) -> bytes:
    """One event. ``data`` is JSON, which has no raw line breaks."""
    return b"data: " + data + b"\n\n"
