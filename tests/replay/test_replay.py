"""The replay engine is a test tool; here it proves that it plays what was recorded."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from tests.replay import (
    Recording,
    ReplayEngine,
    chat_recordings,
    made_stream,
    pairs,
    recording,
    recordings,
)

pytestmark = pytest.mark.asyncio

TWO_CALLS = "tools_auto_two_calls_stream"


async def wire(engine: ReplayEngine, path: str, body: object) -> bytes:
    """Everything the engine writes on a fresh connection until it is quiet or closes."""
    reader, writer = await asyncio.open_connection(*engine.url.removeprefix("http://").split(":"))
    data = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    received = b""
    try:
        while piece := await asyncio.wait_for(reader.read(65536), 0.3):
            received += piece
    except (TimeoutError, ConnectionResetError):
        pass
    writer.close()
    return received


def ask(*, stream: bool, **more: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream, **more}


@pytest.mark.parametrize("split", ["reads", "whole", "bytes", [10, 170, 171, 400]], ids=str)
async def test_every_split_sends_the_recorded_bytes(split: str | list[int]) -> None:
    async with ReplayEngine() as engine:
        played = engine.play(TWO_CALLS, split=split)  # type: ignore[arg-type]
        assert await wire(engine, played.path, ask(stream=True)) == played.response
        assert engine.chats[0].answered_with == "A-" + TWO_CALLS


async def test_pieces_arrive_one_by_one() -> None:
    """A client in the same event loop reads each byte by itself."""
    async with ReplayEngine() as engine:
        played = engine.play(TWO_CALLS, split="bytes")
        sizes = []
        async with (
            aiohttp.ClientSession() as client,
            client.post(engine.url + played.path, json=ask(stream=True)) as answer,
        ):
            async for piece in answer.content.iter_any():
                sizes.append(len(piece))
        assert sum(sizes) == len(played.body)
        assert max(sizes) < 16


async def test_recorded_reads_add_up() -> None:
    for each in recordings():
        assert sum(each.reads) == len(each.response), each.id


async def test_unfinished_recordings_stall_and_notice_the_client_leaving() -> None:
    async with ReplayEngine() as engine:
        played = engine.play("kill9_live_stream")
        assert await wire(engine, played.path, ask(stream=True)) == played.response
        await asyncio.sleep(0.05)
        assert engine.chats[0].abandoned


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_broken_connections(then: str) -> None:
    async with ReplayEngine() as engine:
        played = engine.play(TWO_CALLS, stop_after=1000, then=then)  # type: ignore[arg-type]
        async with aiohttp.ClientSession() as client:
            with pytest.raises(aiohttp.ClientError):
                async with client.post(engine.url + played.path, json=ask(stream=True)) as answer:
                    await answer.read()


async def test_abort_ends_a_stalled_stream_as_recorded() -> None:
    async with ReplayEngine() as engine:
        played = engine.play(TWO_CALLS, stop_after=1000, then="stall")
        running = asyncio.create_task(wire(engine, played.path, ask(stream=True, rid="r1")))
        await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as client:
            for body, status in (({"rid": "r1"}, 200), ({"rid": "unknown"}, 200), ({}, 422)):
                answer = await client.post(engine.url + "/abort_request", json=body)
                assert answer.status == status
        assert engine.aborted == ["r1", "unknown"]
        assert b"input_value='abort'" in await running


async def test_frozen_engine_answers_health_only() -> None:
    async with ReplayEngine() as engine, aiohttp.ClientSession() as client:
        engine.freeze()
        assert (await client.get(engine.url + "/health")).status == 200
        soon = aiohttp.ClientTimeout(total=0.2)
        with pytest.raises(TimeoutError):
            await client.get(engine.url + "/get_server_info", timeout=soon)
        engine.thaw()
        assert (await client.get(engine.url + "/get_server_info")).status == 200


async def test_answers_wait_for_a_request_of_their_kind() -> None:
    """Probes of the gateway, which are plain, must not eat the stream queued for a test."""
    async with ReplayEngine(reasoning_parser="qwen3") as engine, aiohttp.ClientSession() as client:
        engine.play(TWO_CALLS)
        probe = await client.post(engine.url + "/v1/chat/completions", json=ask(stream=False))
        assert (await probe.json())["choices"][0]["message"]["content"]
        assert engine.chats == []
        answer = await client.post(engine.url + "/v1/chat/completions", json=ask(stream=True))
        assert await answer.read() == recording(TWO_CALLS).body
        info = await (await client.get(engine.url + "/get_server_info")).json()
        assert (info["version"], info["reasoning_parser"]) == ("0.4.6.post5", "qwen3")


async def test_loading() -> None:
    assert len(chat_recordings()) > 100
    assert len({each.id for each in recordings()}) == len(recordings())
    assert len(pairs()) > 20
    for plain, stream in pairs():
        assert stream.streamed or stream.status == plain.status
        assert not plain.streamed
    assert recording(TWO_CALLS).events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert recording("long_prompt_plain").status == 400
    assert recording("content_null_user").status == 500


async def test_made_stream_reads_back() -> None:
    events = [{"a": "東京\u2028😀"}, {"b": 1}]
    assert made_stream(events).events == events
    assert isinstance(made_stream([]), Recording)
