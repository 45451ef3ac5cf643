"""The client towards one engine: what it keeps, when it asks again, and how it gives up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from app.engines import http_client
from app.engines.http_client import HTTPClient
from app.errors import ChatServerError, DeadlineExceeded, EngineFailed, EngineUnavailable

Play = Callable[["Engine", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"{}", status: int = 200, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class Engine:
    """A server on a real socket; what it does on each connection in turn is told by the test."""

    def __init__(self, *plays: Play) -> None:
        self._plays = list(plays)
        self.connections = 0
        self.ended = 0
        self.asked: list[bytes] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        play = self._plays[min(self.connections, len(self._plays) - 1)]
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await play(self, reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.ended += 1

    async def take(self, reader: asyncio.StreamReader) -> None:
        """Read one request, with its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        self.asked.append(head + await reader.readexactly(size))

    @contextlib.asynccontextmanager
    async def client(self, path: str = "", **options: Any) -> AsyncIterator[HTTPClient]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
        options = {"api_key": None, "request_timeout": 20.0, "idle_timeout": 10.0} | options
        client = HTTPClient(url, **options)
        try:
            yield client
        finally:
            await client.close()
            server.close()
            await until(lambda: self.ended == self.connections)


def answering(data: bytes, times: int = 1000) -> Play:
    async def play(
        engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for _ in range(times):
            await engine.take(reader)
            writer.write(data)
            await writer.drain()

    return play


def saying(data: bytes) -> Play:
    """Answer one request with these bytes, and then be silent."""

    async def play(
        engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await engine.take(reader)
        writer.write(data)
        await reader.read()  # until the client goes

    return play


async def ask(client: HTTPClient, body: bytes = b"{}") -> bytes:
    connection = await client.ask("POST", "/v1/x", body, stream=False)
    try:
        return await connection.answer.read()
    finally:
        client.give_back(connection)


async def test_what_is_sent() -> None:
    engine = Engine(answering(answer()))
    async with engine.client("/base", api_key="secret") as client:
        await ask(client, b'{"a": 1}')
        await client.get_json("/v1/models", within=5.0)
    sent, read = engine.asked
    assert sent.startswith(b"POST /base/v1/x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer secret\r\n" in sent
    assert b"\r\nContent-Type: application/json\r\nContent-Length: 8\r\n" in sent
    assert sent.endswith(b'\r\n\r\n{"a": 1}')
    assert read.startswith(b"GET /base/v1/models HTTP/1.1\r\n")
    assert b"Content-Length" not in read


async def test_one_connection_serves_one_request_after_another() -> None:
    engine = Engine(answering(answer(b"{1}")))
    async with engine.client() as client:
        for _ in range(5):
            assert await ask(client) == b"{1}"
        assert engine.connections == 1
        await asyncio.gather(*(ask(client) for _ in range(3)))
        assert engine.connections == 3


@pytest.mark.parametrize(
    "data",
    [answer(headers="Connection: close\r\n"), b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}"],
)
async def test_a_connection_that_will_close_is_not_kept(data: bytes) -> None:
    engine = Engine(answering(data))
    async with engine.client() as client:
        for _ in range(3):
            assert await ask(client) == b"{}"
        assert engine.connections == 3


async def test_a_connection_whose_answer_was_given_up_is_not_kept() -> None:
    engine = Engine(saying(answer(b"x" * 100)[:-50]))
    async with engine.client() as client:
        for count in (1, 2):
            connection = await client.ask("POST", "/", b"{}", stream=True)
            assert len(await connection.answer.__anext__()) == 50
            client.give_back(connection)
            await until(lambda count=count: engine.ended == count)
        assert engine.connections == 2


async def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    engine = Engine(answering(answer(), times=1), answering(answer()))
    async with engine.client() as client:
        await ask(client)
        # As when the engine closes it in the moment of the next request: no time to notice.
        assert await ask(client) == b"{}"
        await asyncio.sleep(0.05)
        assert await ask(client) == b"{}"
    assert engine.connections == 2


async def closing_after_the_next(
    engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await engine.take(reader)
    writer.write(answer())
    await engine.take(reader)


async def closing_within_the_next(
    engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await engine.take(reader)
    writer.write(answer())
    await engine.take(reader)
    writer.write(answer()[:20])
    await writer.drain()


async def closing(
    engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await engine.take(reader)


async def test_a_request_is_sent_again_only_if_a_kept_connection_brought_not_a_byte() -> None:
    engine = Engine(closing_after_the_next, answering(answer()))
    async with engine.client() as client:
        await ask(client)
        await ask(client)
    assert (engine.connections, len(engine.asked)) == (2, 3)

    engine = Engine(closing_within_the_next, answering(answer()))
    async with engine.client() as client:
        await ask(client)
        with pytest.raises(EngineUnavailable):
            await ask(client)
    assert (engine.connections, len(engine.asked)) == (1, 2)


async def test_a_request_on_a_fresh_connection_is_sent_once() -> None:
    engine = Engine(closing)
    async with engine.client() as client:
        with pytest.raises(EngineUnavailable):
            await ask(client)
    assert len(engine.asked) == 1


async def test_a_request_is_sent_again_once_only() -> None:
    engine = Engine(closing_after_the_next, closing)
    async with engine.client() as client:
        await ask(client)
        with pytest.raises(EngineUnavailable):
            await ask(client)
    assert len(engine.asked) == 3


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_POOL_IDLE", 0.2)
    engine = Engine(answering(answer()))
    async with engine.client() as client:
        await asyncio.gather(*(ask(client) for _ in range(3)))
        assert engine.connections == 3
        await asyncio.sleep(0.1)
        await ask(client)
        await until(lambda: engine.ended == 2, within=0.16)
        await until(lambda: engine.ended == 3)
        await ask(client)
        assert engine.connections == 4


async def test_a_refusal_is_the_engines_own_error() -> None:
    told = b'{"object": "error", "message": "top_p must be in (0, 1], got 2.0.", "code": 400}'
    engine = Engine(answering(answer(told, status=400)))
    async with engine.client() as client:
        with pytest.raises(ChatServerError, match="top_p must be in") as caught:
            await ask(client)
        assert caught.value.kind.status == 400
        with pytest.raises(ChatServerError, match="top_p must be in"):
            await client.ask("POST", "/", b"{}", stream=True)
        assert engine.connections == 1


async def test_a_refusal_that_does_not_end_is_given_up() -> None:
    engine = Engine(saying(answer(b"x" * 100, status=500)[:-1]))
    async with engine.client(idle_timeout=0.2) as client:
        with pytest.raises(DeadlineExceeded):
            await ask(client)
        await until(lambda: engine.ended == 1)


@pytest.mark.parametrize(
    "data", [answer(b"no", 404), answer(b"[]"), answer(b"<html>"), answer(b"")]
)
async def test_what_is_no_json_object_is_said(data: bytes) -> None:
    async with Engine(answering(data)).client() as client:
        with pytest.raises(EngineFailed, match="GET /x of the engine"):
            await client.get_json("/x", within=5.0)


async def test_an_engine_that_is_silent_is_given_up() -> None:
    engine = Engine(saying(b""))
    async with engine.client(request_timeout=0.2, idle_timeout=10.0) as client:
        with pytest.raises(DeadlineExceeded, match="longer"):
            await ask(client)
    engine = Engine(saying(b""))
    async with engine.client(request_timeout=10.0, idle_timeout=0.2) as client:
        with pytest.raises(DeadlineExceeded, match="silent"):
            await client.ask("POST", "/", b"{}", stream=True)
        await until(lambda: engine.ended == 1)
        with pytest.raises(DeadlineExceeded):
            await client.get_json("/", within=0.2)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no-such-host.invalid:80"])
async def test_an_engine_that_can_not_be_reached(url: str) -> None:
    client = HTTPClient(url, api_key=None, request_timeout=9.0, idle_timeout=9.0)
    with pytest.raises(EngineUnavailable, match="can't be reached") as caught:
        await ask(client)
    assert caught.value.retry_after == 5
    await client.close()


async def test_a_plain_server_is_no_tls_server() -> None:
    async with Engine(answering(answer())).client() as plain:
        url = f"https://127.0.0.1:{plain._port}"
        client = HTTPClient(url, api_key=None, request_timeout=9.0, idle_timeout=9.0)
        with pytest.raises(EngineUnavailable, match="can't be reached"):
            await ask(client)
        await client.close()


async def test_hanging_up_ends_open_requests_and_refuses_new_ones() -> None:
    engine = Engine(saying(b""), saying(answer(b"x" * 9)[:-1]), answering(answer()))
    async with engine.client() as client:
        waiting = asyncio.ensure_future(ask(client))
        await until(lambda: len(engine.asked) == 1)
        reading = asyncio.ensure_future(ask(client))
        await until(lambda: len(engine.asked) == 2)
        await ask(client)  # and one that is kept
        await client.hang_up("Closed for today.")
        for each in (waiting, reading, ask(client)):
            with pytest.raises(EngineUnavailable, match="Closed for today"):
                await each
        await until(lambda: engine.ended == 3)
        assert engine.connections == 3


async def test_hanging_up_while_a_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(answering(answer()))
    async with engine.client() as client:
        loop = asyncio.get_running_loop()
        make = loop.create_connection
        made = asyncio.Event()

        async def slowly(*arguments: Any, **options: Any) -> Any:
            found = await make(*arguments, **options)
            made.set()
            await asyncio.sleep(0.05)
            return found

        monkeypatch.setattr(loop, "create_connection", slowly)
        asking = asyncio.ensure_future(ask(client))
        await made.wait()
        await client.hang_up("Closed for today.")
        with pytest.raises(EngineUnavailable, match="Closed for today"):
            await asking
        await until(lambda: engine.ended == 1)
    assert engine.asked == []


async def test_a_cancelled_request_closes_its_connection() -> None:
    engine = Engine(saying(b""))
    async with engine.client() as client:
        asking = asyncio.ensure_future(ask(client))
        await until(lambda: len(engine.asked) == 1)
        asking.cancel()
        await until(lambda: engine.ended == 1)


async def test_another_engine_is_asked_after_a_move() -> None:
    first, second = Engine(answering(answer(b"1"))), Engine(answering(answer(b"2")))
    async with first.client() as client, second.client("/v2") as other:
        assert await ask(client) == b"1"
        client.move_to(f"http://127.0.0.1:{other._port}/v2")
        assert await ask(client) == b"2"
        assert second.asked[0].startswith(b"POST /v2/v1/x ")
        await until(lambda: first.ended == 1)


async def test_large_bodies_arrive_whole() -> None:
    body = b'{"a": "' + b"x" * 20_000_000 + b'"}'
    engine = Engine(answering(answer(body)))
    async with engine.client() as client:
        assert await ask(client, body) == body
    assert engine.asked[0].endswith(body)


async def until(condition: Callable[[], bool], within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
