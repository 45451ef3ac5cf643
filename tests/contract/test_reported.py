"""Failures of other servers, staged here; docs/known-failures.md says who reported them."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from app.engines.openai_http import OpenAIEngine
from tests.contract.gateway import running_gateway
from tests.contract.outcome import invoke
from tests.replay import USAGE, Recording, ReplayEngine, made_answer, made_chunk, made_stream
from tests.replay.playing import respond

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
STREAM = ASK | {"stream": True}
FUNCTIONS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("get_weather", "get_time")
]
TOOLS = {"custom_inputs": {"tools": FUNCTIONS}}

module_loop = pytest.mark.asyncio(loop_scope="module")


def called(name: str, arguments: str, index: int = 0) -> dict[str, Any]:
    """A call as the engine words it, whole."""
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{index}", "index": index, "type": "function", "function": function}


def plain(finish_reason: str, **message: Any) -> Any:
    """A plain answer that was not recorded."""
    whole = {"role": "assistant", "content": None, "tool_calls": None} | message
    choice = {"index": 0, "message": whole, "finish_reason": finish_reason}
    return made_answer({"choices": [choice], "usage": USAGE})


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
async def test_a_pause_of_six_seconds_is_no_error(
    body: dict[str, Any], client: aiohttp.ClientSession
) -> None:
    """An HTTP client's own default of five seconds must not be what ends an answer."""
    async with ReplayEngine() as engine, running_gateway(engine, idle_timeout=30.0) as gateway:
        if body is STREAM:
            hello = [made_chunk(content="Hel"), made_chunk(content="lo")]
            answer = made_stream([*hello, made_chunk("stop", USAGE)])
            pause_at = answer.response.index(b'data: {"id"', len(answer.head) + 20)
        else:
            answer = plain("stop", content="Hello")
            pause_at = len(answer.head) + 5
        engine.play(answer, split=[pause_at], pause=6.0)
        outcome = await invoke(client, gateway, body)
    assert (outcome.status, outcome.error, outcome.content) == (200, None, "Hello")


@module_loop
async def test_two_calls_in_one_piece_of_a_stream_keep_their_arguments(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    both = [
        called("get_weather", '{"city": "東京"}', 0),
        called("get_time", '{"zone": "Asia/Tokyo"}', 1),
    ]
    engine.play(plain("tool_calls", tool_calls=both))
    one = await invoke(client, gateway, ASK | TOOLS)
    engine.play(
        made_stream([made_chunk(tool_calls=both), made_chunk("tool_calls", USAGE)]), split="whole"
    )
    other = await invoke(client, gateway, STREAM | TOOLS)
    assert other.summary == one.summary
    assert [json.loads(call["function"]["arguments"]) for call in other.tool_calls] == [
        {"city": "東京"},
        {"zone": "Asia/Tokyo"},
    ]
    assert len({call["id"] for call in other.tool_calls}) == 2


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "choice",
    ["auto", {"type": "function", "function": {"name": "get_time"}}],
    ids=["auto", "named"],
)
async def test_finish_reason_is_tool_calls_whenever_a_tool_is_called(
    choice: Any,
    body: dict[str, Any],
    engine: ReplayEngine,
    gateway: str,
    client: aiohttp.ClientSession,
) -> None:
    """The engine says ``stop`` beside a call."""
    calls = [called("get_time", "{}")]
    if body is STREAM:
        engine.play(made_stream([made_chunk(tool_calls=calls), made_chunk("stop", USAGE)]))
    else:
        engine.play(plain("stop", tool_calls=calls))
    inputs = {"tools": FUNCTIONS, "tool_choice": choice}
    outcome = await invoke(client, gateway, body | {"custom_inputs": inputs})
    assert [call["function"]["name"] for call in outcome.tool_calls] == ["get_time"]
    assert outcome.closing["finish_reason"] == "tool_calls"


@module_loop
async def test_a_stream_has_its_usage_without_being_asked_for_it(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """As SGLang sends it when asked: in a chunk of its own, without a choice, after the end."""
    counts = {"choices": [], "usage": USAGE}
    engine.play(made_stream([made_chunk(content="Hello"), made_chunk("stop"), counts]))
    outcome = await invoke(client, gateway, STREAM)
    assert engine.chats[-1].json["stream_options"] == {"include_usage": True}
    assert outcome.closing["usage"] == USAGE
    assert outcome.chunks[-1]["finish_reason"] == "stop"


@module_loop
async def test_the_switch_that_turns_thinking_off_reaches_the_template(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    switch = {"chat_template_kwargs": {"enable_thinking": False}}
    engine.play("chat_plain")
    outcome = await invoke(client, gateway, ASK | {"custom_inputs": switch})
    assert outcome.status == 200
    assert engine.chats[-1].json["chat_template_kwargs"] == {"enable_thinking": False}


class NoSystemRole(ReplayEngine):
    """Its chat template raises at a system message, as Gemma's does."""

    def __init__(self, refusal: Recording) -> None:
        super().__init__()
        self._refusal = refusal

    async def _generate(self, received: Any, reader: Any, writer: Any) -> bool:
        if any(each["role"] == "system" for each in received.json["messages"]):
            return await respond(writer, self._refusal)
        return await super()._generate(received, reader, writer)


BARE = made_answer("Internal Server Error", 500, "text/plain")
IN_WORDS = made_answer({"message": "System role not supported", "code": 400}, status=400)


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize("refusal", [BARE, IN_WORDS], ids=["500", "400"])
async def test_a_template_without_a_system_role_is_no_error(
    refusal: Recording, body: dict[str, Any], client: aiohttp.ClientSession
) -> None:
    turns = [{"role": "system", "content": "Be brief."}, *body["messages"]]
    async with NoSystemRole(refusal) as engine, running_gateway(engine) as gateway:
        engine.play("chat_stream_usage" if body is STREAM else "chat_plain")
        outcome = await invoke(client, gateway, body | {"messages": turns})
        assert (outcome.status, outcome.error) == (200, None)
        assert engine.chats[-1].json["messages"] == [{"role": "user", "content": "Be brief.\n\nx"}]


@module_loop
async def test_what_was_learned_of_the_template_outlives_another_look(engine: ReplayEngine) -> None:
    """An attached engine is looked at every ten seconds, and warmed up only once."""
    asked = OpenAIEngine(engine.url)
    try:
        await asked.discover()
        asked.learn(takes_system=False)
        assert (await asked.discover()).takes_system is False
        assert asked.found.takes_system is False
    finally:
        await asked.close()


@module_loop
async def test_a_system_message_stays_one_where_the_template_has_a_place_for_it(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    turns = [{"role": "system", "content": "Be brief."}, *ASK["messages"]]
    engine.play("chat_plain")
    await invoke(client, gateway, {"messages": turns})
    assert engine.chats[-1].json["messages"] == turns


@module_loop
@pytest.mark.parametrize("path", ["/invocations", "/v1/chat/completions"])
async def test_no_proxy_collects_the_pieces_of_a_stream(
    path: str, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """nginx buffers whatever does not say that it must not."""
    async with client.post(gateway + path, json=STREAM | {"model": "m"}) as answer:
        await answer.read()
    assert answer.status == 200
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["Cache-Control"] == "no-cache"
