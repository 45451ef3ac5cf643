"""One connection to an engine: bytes in any pieces, and every way in which an answer can end."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engines.http_connection import Answer, Connection
from app.errors import ChatServerError, DeadlineExceeded, EngineUnavailable

BODY = b'{"id": "a"}\n' * 20
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Type: a/b\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = (
    OK
    + b"content-type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:100], BODY[100:]))
    + b"0\r\n\r\n"
)
EARLY_HINT = (
    b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Type: x/y\r\n\r\n"
)
UNTIL_END = OK + b"Content-Type: a/b\r\n\r\n" + BODY
REFUSAL = LENGTH.replace(b"200 OK", b"500 No").replace(b"a/b", b"c/d")
CLOSES = LENGTH.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


class Wire(asyncio.Transport):
    """The transport, played."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self.paused = False
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return self.unsent


def asked(**limits: Any) -> tuple[Connection, Answer, Wire]:
    """A connection on which a request was sent."""
    wire, connection = Wire(), Connection()
    connection.connection_made(wire)
    deadline = asyncio.get_running_loop().time() + limits.pop("within", 60.0)
    return connection, connection.ask(b"head", b"body", deadline=deadline, **limits), wire


async def collect(answer: Answer) -> bytes:
    return b"".join([part async for part in answer])


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, EARLY_HINT + LENGTH, EARLY_HINT + CHUNKED])
def test_the_pieces_in_which_it_arrives_make_no_difference(data: bytes) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.sets(st.integers(1, len(data) - 1), max_size=40), st.booleans())
    def check(cuts: set[int], whole: bool) -> None:
        async def arrive() -> None:
            connection, answer, wire = asked()
            reading = asyncio.ensure_future(answer.read() if whole else collect(answer))
            places = [0, *sorted(cuts), len(data)]
            for start, end in pairwise(places):
                connection.data_received(data[start:end])
                await asyncio.sleep(0)
            assert await reading == BODY
            assert (answer.status, answer.header(b"content-type")) == (200, "a/b")
            assert wire.written == b"headbody"
            assert connection.release()
            assert not wire.aborted

        asyncio.run(arrive())

    check()


async def test_what_came_together_is_one_piece() -> None:
    connection, answer, _ = asked()
    connection.data_received(CHUNKED)
    assert [part async for part in answer] == [BODY]
    connection.release()


async def test_a_body_without_a_length_lasts_until_the_connection_ends() -> None:
    connection, answer, _ = asked()
    connection.data_received(UNTIL_END)
    reading = asyncio.ensure_future(answer.read())
    await asyncio.sleep(0)
    assert not reading.done()
    connection.connection_lost(None)
    assert await reading == BODY
    assert not connection.release()


async def test_a_body_without_a_length_may_also_break_off() -> None:
    connection, answer, _ = asked()
    connection.data_received(UNTIL_END)
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(EngineUnavailable):
        await answer.read()
    connection.release()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OK[:9],
        OK + b"Content-Le",
        LENGTH[:-1],
        CHUNKED[:-1],
        CHUNKED[:-5],
        EARLY_HINT,
        EARLY_HINT + OK,
    ],
)
@pytest.mark.parametrize("how", [None, ConnectionResetError()])
async def test_an_answer_that_breaks_off_is_an_error(data: bytes, how: Exception | None) -> None:
    connection, answer, _ = asked()
    if data:
        connection.data_received(data)
    connection.connection_lost(how)
    with pytest.raises(EngineUnavailable):
        await answer.read()
    assert answer.touched == bool(data)
    assert not connection.release()


async def test_what_came_before_an_error_is_read_first() -> None:
    connection, answer, _ = asked()
    connection.data_received(CHUNKED[:-5])
    connection.connection_lost(None)
    parts = answer.__aiter__()
    assert await parts.__anext__() == BODY
    with pytest.raises(EngineUnavailable):
        await parts.__anext__()
    connection.release()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02 garbage",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        OK + b"Content-Length: five\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n\x81",
        OK + b"X: " + b"x" * 70_000,
    ],
)
async def test_what_is_no_answer_is_an_error(data: bytes) -> None:
    connection, answer, wire = asked()
    connection.data_received(data)
    with pytest.raises(EngineUnavailable):
        await answer.read()
    assert wire.aborted
    assert not connection.release()


async def test_a_head_without_an_end_is_given_up() -> None:
    connection, answer, wire = asked()
    for _ in range(80):
        connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" * 40)
    assert wire.aborted
    with pytest.raises(EngineUnavailable):
        await answer.head()
    connection.release()


@pytest.mark.parametrize(
    "data", [CLOSES, LENGTH + b"x", LENGTH + REFUSAL, CHUNKED + OK, b"HTTP/1.0" + LENGTH[8:]]
)
async def test_connections_that_carry_no_second_request(data: bytes) -> None:
    connection, answer, wire = asked()
    connection.data_received(data)
    assert await answer.read() == BODY
    assert (answer.status, answer.header(b"content-type")) == (200, "a/b")
    assert not connection.release()
    assert wire.aborted


async def test_a_second_answer_that_comes_later_ends_the_connection() -> None:
    connection, answer, wire = asked()
    connection.data_received(LENGTH)
    assert await answer.read() == BODY
    assert connection.release()
    connection.data_received(LENGTH)
    assert wire.aborted


@pytest.mark.parametrize("data", [b"", OK, LENGTH[:-1], CHUNKED[:-2]])
async def test_an_answer_that_was_not_read_to_its_end_closes_the_connection(data: bytes) -> None:
    connection, _, wire = asked()
    if data:
        connection.data_received(data)
    assert not connection.release()
    assert wire.aborted


async def test_an_answer_before_all_of_the_request_was_sent_closes_the_connection() -> None:
    connection, answer, wire = asked()
    wire.unsent = 1
    connection.data_received(LENGTH)
    assert await answer.read() == BODY
    assert not connection.release()


async def test_an_engine_is_stopped_when_nobody_reads() -> None:
    connection, answer, wire = asked()
    connection.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)
    held = 0
    while not wire.paused:
        connection.data_received(piece)
        held += 1
    assert held == 5  # the first to be more than 256 KiB
    assert len(await answer.__anext__()) == 300_000
    assert not wire.paused
    connection.release()


async def test_who_wants_the_whole_answer_does_not_stop_the_engine() -> None:
    connection, answer, wire = asked()
    connection.data_received(OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 500_000)
    assert wire.paused
    reading = asyncio.ensure_future(answer.read())
    await asyncio.sleep(0)
    assert not wire.paused
    connection.data_received(b"x" * 500_000)
    assert len(await reading) == 1_000_000
    assert not wire.paused
    assert connection.release()


async def test_a_kept_connection_is_read_from_again() -> None:
    connection, answer, wire = asked()
    connection.data_received(OK + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000)
    assert wire.paused
    assert answer.complete
    assert connection.release()
    assert not wire.paused


async def ended_after(answer: Answer) -> tuple[str, float]:
    clock = asyncio.get_running_loop().time
    started = clock()
    with pytest.raises(DeadlineExceeded) as caught:
        await answer.read()
    return caught.value.message, clock() - started


async def test_the_whole_answer_has_a_deadline() -> None:
    connection, answer, wire = asked(within=0.1, silence=10.0)
    said, after = await ended_after(answer)
    assert "longer than allowed" in said
    assert 0.09 < after < 2
    assert wire.aborted
    connection.release()


async def test_bytes_do_not_move_the_deadline() -> None:
    connection, answer, _ = asked(within=0.2, silence=10.0)
    connection.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n")

    async def drip() -> None:
        while True:
            await asyncio.sleep(0.01)
            connection.data_received(b"1\r\nx\r\n")

    dripping = asyncio.ensure_future(drip())
    with pytest.raises(DeadlineExceeded):
        await collect(answer)
    dripping.cancel()
    connection.release()


async def test_bytes_move_the_end_of_silence() -> None:
    connection, answer, _ = asked(silence=0.2)
    connection.data_received(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    reading = asyncio.ensure_future(ended_after(answer))
    for _ in range(6):
        await asyncio.sleep(0.1)
        connection.data_received(b"1\r\nx\r\n")
    said, after = await reading
    assert "silent" in said
    assert after > 0.7
    connection.release()


async def test_while_nobody_reads_the_engine_is_not_silent() -> None:
    connection, answer, wire = asked(silence=0.1)
    connection.data_received(CHUNKED[:-5])
    await asyncio.sleep(0.35)
    assert await answer.__anext__() == BODY
    assert not wire.aborted
    said, _ = await ended_after(answer)
    assert "silent" in said
    connection.release()


async def test_the_rest_can_be_hurried() -> None:
    connection, answer, _ = asked()
    answer.hurry(0.1)
    assert (await ended_after(answer))[1] < 2
    connection.release()


async def test_an_answer_that_was_failed_says_why_and_keeps_to_it() -> None:
    connection, answer, wire = asked()
    reading = asyncio.ensure_future(answer.read())
    await asyncio.sleep(0)
    connection.fail(EngineUnavailable("first", retry_after=1))
    connection.fail(EngineUnavailable("second", retry_after=1))
    connection.connection_lost(None)
    with pytest.raises(ChatServerError, match="first"):
        await reading
    assert wire.aborted
    connection.release()


async def test_a_complete_answer_can_not_fail_any_more() -> None:
    connection, answer, _ = asked()
    connection.data_received(LENGTH)
    answer.fail(EngineUnavailable("late", retry_after=1))
    assert await answer.read() == BODY
    connection.release()


async def test_no_request_goes_to_a_connection_that_is_gone() -> None:
    connection, _, _ = asked()
    connection.connection_lost(None)
    connection.release()
    assert not connection.is_open
    with pytest.raises(EngineUnavailable):
        connection.ask(b"", b"", deadline=1e9)
