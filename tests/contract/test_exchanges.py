"""Single exchanges through the gateway: odd answers, warnings, and what the engine is asked."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.contract.outcome import invoke
from tests.mlflow_versions import validate
from tests.replay import USAGE, ReplayEngine, made_answer, made_chunk, made_stream, recording

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
STREAM = ASK | {"stream": True}

module_loop = pytest.mark.asyncio(loop_scope="module")


@module_loop
async def test_finish_reason_before_the_text(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """With max_tokens 1 this engine's role chunk says "length", and the word comes after it."""
    engine.play(
        made_stream(
            [
                made_chunk(role="assistant", finish_reason="length"),
                made_chunk(content="Hello"),
                made_chunk(finish_reason="length", usage=USAGE),
            ]
        )
    )
    outcome = await invoke(client, gateway, STREAM)
    assert (outcome.content, outcome.closing["finish_reason"]) == ("Hello", "length")
    assert len(outcome.chunks) == 1


@module_loop
async def test_text_before_a_tool_call_is_the_same_in_both_modes(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """Only the plain form was recorded; the stream is in the form of the other tool calls'."""
    plain = recording("tools_auto_text_then_call_plain")
    tools = {"custom_inputs": {"tools": plain.request_body["tools"]}}
    call = {"index": 0, "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    more = {"name": None, "arguments": '{"city": "Paris"}'}
    events = [made_chunk(role="assistant")]
    for text in ("Let me", " look", ".", " <", "tool_", "call>", "\n"):
        events.append(made_chunk(content=text))
    events.append(made_chunk(tool_calls=[{**call, "id": "call_1"}]))
    events.append(made_chunk(tool_calls=[{**call, "id": None, "function": more}]))
    events += [made_chunk(content=text) for text in ("\n", "</", "tool_call>")]
    events.append(made_chunk("tool_calls", plain.answer["usage"]))
    engine.play(plain)
    one = await invoke(client, gateway, ASK | tools)
    engine.play(made_stream(events))
    other = await invoke(client, gateway, STREAM | tools)
    assert other.summary == one.summary
    assert one.content == "Let me look."


@module_loop
@pytest.mark.parametrize(
    "text", ["a <", "<tool", " x \n", "<", "[", "a [TOOL", "<tool_call>\n", "1 < 2"]
)
async def test_text_that_looks_like_the_beginning_of_a_call_is_kept(
    text: str, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    function = {"name": "f", "parameters": {"type": "object"}}
    tools = {"custom_inputs": {"tools": [{"type": "function", "function": function}]}}
    events = [made_chunk(role="assistant"), *(made_chunk(content=each) for each in text)]
    engine.play(made_stream([*events, made_chunk("length", USAGE)]))
    outcome = await invoke(client, gateway, STREAM | tools)
    assert outcome.content == text
    assert outcome.tool_calls == []


@module_loop
async def test_characters_that_break_naive_clients(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    text = ["東京\u2028", "は\u0085\u2029", "😀", '"\\\n\r\x00', " 🇯🇵", "\ufeff町"]
    events = [made_chunk(role="assistant"), *(made_chunk(content=part) for part in text)]
    stream = made_stream([*events, made_chunk(finish_reason="stop", usage=USAGE)])
    for split in ("whole", "bytes", [300, 391, 392, 500, 617]):
        engine.play(stream, split=split)  # type: ignore[arg-type]
        outcome = await invoke(client, gateway, STREAM)
        assert outcome.content == "".join(text)
        assert outcome.error is None


@module_loop
@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_empty_answers_are_valid_and_the_same_in_both_modes(
    finish: str, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    message = {"role": "assistant", "content": "", "tool_calls": None}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    engine.play(made_answer({"choices": [choice], "usage": USAGE}))
    plain = await invoke(client, gateway, ASK)
    engine.play(
        made_stream([made_chunk(role="assistant"), made_chunk(finish_reason=finish, usage=USAGE)])
    )
    stream = await invoke(client, gateway, STREAM)
    assert stream.summary == plain.summary
    assert plain.content.strip() == ""
    found = validate([*plain.candidates("plain"), *stream.candidates("stream")])
    assert [str(problem) for problem in found] == []


@module_loop
@pytest.mark.parametrize("body", [ASK, STREAM], ids=["plain", "stream"])
async def test_warning_for_parameters_at_the_top_level(
    body: dict[str, Any], engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """They have no effect; the header says where they belong, whatever the key looks like."""
    odd = {"temperature": 0.1, "温度": 1, "a\r\nSet-Cookie: b=c": 1, "x" * 5000: 1}
    engine.play("chat_stream_usage" if body.get("stream") else "chat_plain")
    outcome = await invoke(client, gateway, body | odd)
    assert outcome.status == 200
    assert "temperature" in outcome.headers["x-warning"]
    assert "custom_inputs" in outcome.headers["x-warning"]
    assert len(outcome.headers["x-warning"]) < 1000
    assert "set-cookie" not in outcome.headers
    assert not odd.keys() & engine.chats[-1].json.keys()


@module_loop
async def test_what_the_engine_is_asked(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    engine.play("chat_plain")
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": " there"}]
    body = {
        "messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": parts}],
        "context": {"conversation_id": "c1", "user_id": "u1"},
        "custom_inputs": {"temperature": 0, "top_k": 5, "extra_body": {"custom": [1]}},
    }
    outcome = await invoke(client, gateway, body)
    assert outcome.status == 200
    asked = engine.chats[-1].json
    assert asked["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "Hi there"},
    ]
    assert (asked["model"], asked["user"]) == ("m", "u1")
    assert (asked["temperature"], asked["top_k"], asked["custom"]) == (0, 5, [1])
    assert "stream" not in asked or asked["stream"] is False


@module_loop
async def test_seed_is_answered_with_a_warning(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """The recording shows two different answers for one seed."""
    assert recording("seed_1").request == recording("seed_2").request
    assert recording("seed_1").answer["choices"] != recording("seed_2").answer["choices"]
    engine.play("seed_1")
    outcome = await invoke(client, gateway, ASK | {"custom_inputs": {"seed": 42}})
    assert outcome.status == 200
    assert "custom_inputs.seed" in outcome.headers["x-warning"]
