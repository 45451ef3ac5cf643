"""Writing a recording to a socket: cut at chosen places, and ended well or badly."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.replay.http import Received
from tests.replay.recordings import Recording, recording

Ending = Literal["keep", "stall", "close", "reset"]
Split = Literal["reads", "bytes", "whole"] | Sequence[int]


@dataclass(eq=False)
class Play:
    """A recording waiting for the request that it will answer."""

    recording: Recording
    split: Split = "reads"
    pause: float = 0.0
    stop_after: int | None = None
    then: Ending | None = None

    def fits(self, received: Received) -> bool:
        """Whether it is an answer to this request: the same endpoint, and streamed or not."""
        if received.path != self.recording.path:
            return False
        # An error may come as plain text to either kind, and a silence has no kind.
        plain_error = self.recording.status is None or self.recording.status >= 400
        return plain_error or received.wants_stream == self.recording.streamed

    @property
    def ending(self) -> Ending:
        """What follows the last byte: as recorded when the test does not say."""
        if self.then is not None:
            return self.then
        if self.stop_after is not None:
            return "close"
        return "keep" if self.recording.end == "complete" else "stall"

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the answer, one item for each write."""
        wire = self.recording.response[: self.stop_after]
        if self.split == "whole":
            cuts: list[int] = []
        elif self.split == "bytes":
            # The head goes in one piece: its split is the HTTP client's business, not ours.
            cuts = list(range(len(self.recording.head), len(wire)))
        elif self.split == "reads":
            cuts = list(itertools.accumulate(self.recording.reads))
        else:
            cuts = sorted(set(self.split))
        edges = [0, *(cut for cut in cuts if 0 < cut < len(wire)), len(wire)]
        return (wire[start:end] for start, end in itertools.pairwise(edges) if end > start)


async def respond(writer: asyncio.StreamWriter, answer: Recording) -> bool:
    """Send a whole answer at once."""
    writer.write(answer.response)
    await writer.drain()
    return True


async def play_out(
    play: Play, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Send an answer piece by piece; returns whether the connection can serve another request."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = 0
    for piece in play.pieces():
        if received.aborted.is_set():
            return await _end_aborted(received, sent, writer)
        if reader.at_eof() or writer.transport.is_closing():
            received.abandoned = True
            return False
        writer.write(piece)
        sent += len(piece)
        await writer.drain()
        # Lets a client in the same event loop read this piece before the next one is written.
        await asyncio.sleep(play.pause)
    if play.ending == "keep":
        return True
    if play.ending == "stall":
        return await _stall(received, sent, reader, writer)
    if play.ending == "reset":
        # Lingering for no time makes close() send a reset instead of an orderly end.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    return False


async def _stall(
    received: Received, sent: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Say nothing more until the client goes away or aborts the request."""
    while not reader.at_eof():
        if received.aborted.is_set():
            return await _end_aborted(received, sent, writer)
        await asyncio.sleep(0.01)
    received.abandoned = True
    return False


async def _end_aborted(received: Received, sent: int, writer: asyncio.StreamWriter) -> bool:
    """End as the engine did after /abort_request: an error event, or 500 for a plain request."""
    kind = "stream" if received.wants_stream else "plain"
    recorded = recording(f"abort_request_victim_{kind}")
    if kind == "plain":
        return sent == 0 and await respond(writer, recorded)
    head = recorded.head if sent == 0 else b""
    # The last three chunks: the error, [DONE] and the end of the body.
    writer.write(head + recorded.response[-sum(recorded.reads[-3:]) :])
    await writer.drain()
    return True
