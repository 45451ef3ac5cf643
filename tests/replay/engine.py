"""An HTTP server that looks like SGLang 0.4.6.post5 and answers with recorded bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from types import TracebackType
from typing import Any

from tests.replay.http import Received, read_request
from tests.replay.made import made_answer
from tests.replay.playing import Ending, Play, Split, play_out, respond
from tests.replay.recordings import CHAT, Recording, recording

# What a request gets when nothing was queued for it.
UNASKED = {"plain": "chat_default_params", "stream": "chat_stream_natural_stop"}
GENERATING = (CHAT, "/v1/completions", "/v1/embeddings", "/generate")


class ReplayEngine:
    """Use as ``async with ReplayEngine() as engine:`` and give ``engine.url`` to the gateway.

    Requests for an answer take the oldest fitting ``play()``; when nothing was queued they get a
    short recorded chat answer, plain or streamed, so that warm-up and probes just work.
    """

    def __init__(self, *, reasoning_parser: str | None = None, **server_info: Any) -> None:
        self.server_info = {"reasoning_parser": reasoning_parser, **server_info}
        self.requests: list[Received] = []
        self.aborted: list[str] = []
        self.frozen = False
        self._queue: list[Play] = []
        self._running: list[Received] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._reserved: socket.socket | None = None

    async def __aenter__(self) -> ReplayEngine:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._end_connections()

    @property
    def url(self) -> str:
        """Where it listens, for ENGINE_URL."""
        assert self._server is not None, "enter the context first"
        port = self._port or self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    @property
    def chats(self) -> list[Received]:
        """The chat requests that a ``play()`` answered, without warm-up and probes."""
        return [each for each in self.requests if each.answered_with]

    def play(
        self,
        answer: str | Recording,
        *,
        split: Split = "reads",
        pause: float = 0.0,
        stop_after: int | None = None,
        then: Ending | None = None,
    ) -> Recording:
        """Answer the next request of the same kind (path; plain or stream) with a recording.

        ``split``: where the bytes are cut into separate writes: "reads" as recorded, "bytes" one
        at a time, "whole", or a list of offsets in the response. ``pause``: seconds between
        writes. ``stop_after``: how many bytes are sent at most. ``then``: what follows the last
        byte: "keep" the connection, "stall", "close" or "reset"; by default as recorded.
        """
        chosen = recording(answer) if isinstance(answer, str) else answer
        self._queue.append(Play(chosen, split, pause, stop_after, then))
        return chosen

    def forget(self) -> None:
        """Drop what was queued and not yet asked for."""
        self._queue.clear()

    async def die(self) -> None:
        """Break every connection and refuse new ones, as after kill -9."""
        assert self._server is not None
        self._port = self._server.sockets[0].getsockname()[1]
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._end_connections()
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", self._port))

    async def rise(self) -> None:
        """Listen at the same port again."""
        self._server = await asyncio.start_server(self._accept, sock=self._reserved)

    def freeze(self) -> None:
        """Behave as after the death of the scheduler: only /health and /v1/models answer."""
        self.frozen = True

    def thaw(self) -> None:
        """Be well again: requests that waited are answered now, as after SIGCONT."""
        self.frozen = False

    async def _end_connections(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        task.add_done_callback(self._connections.discard)
        try:
            while (received := await read_request(reader)) is not None:
                self.requests.append(received)
                if not await self._answer(received, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # the engine was stopped; a finished task keeps asyncio's server quiet
        finally:
            self._writers.discard(writer)
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _answer(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; returns whether the connection can serve another one."""
        if received.method == "POST" and received.path in GENERATING:
            return await self._generate(received, reader, writer)
        if received.path == "/get_server_info":
            await self._while_frozen(reader)
            return await respond(writer, self._server_info())
        if received.path == "/abort_request":
            return await respond(writer, self._abort(received))
        fixed = {"/health": "health", "/ping": "health", "/v1/models": "v1_models"}
        return await respond(writer, recording(fixed.get(received.path, "unknown_path")))

    async def _generate(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        await self._while_frozen(reader)
        play = next((each for each in self._queue if each.fits(received)), None)
        if play is not None:
            self._queue.remove(play)
            received.answered_with = play.recording.id
        else:
            play = Play(recording(UNASKED["stream" if received.wants_stream else "plain"]))
        self._running.append(received)
        try:
            return await play_out(play, received, reader, writer)
        finally:
            self._running.remove(received)

    async def _while_frozen(self, reader: asyncio.StreamReader) -> None:
        while self.frozen:
            if reader.at_eof():
                raise ConnectionResetError("the client went away")
            await asyncio.sleep(0.01)

    def _server_info(self) -> Recording:
        return made_answer(recording("get_server_info").answer | self.server_info)

    def _abort(self, received: Received) -> Recording:
        if received.rid is None:
            return recording("abort_request_no_rid")
        self.aborted.append(received.rid)
        for each in self._running:
            if each.rid == received.rid:
                each.aborted.set()
        return recording("abort_request")

    def __repr__(self) -> str:
        waiting = json.dumps([each.recording.id for each in self._queue])
        return f"<ReplayEngine frozen={self.frozen} queue={waiting}>"
