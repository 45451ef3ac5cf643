"""The OpenAI routes: answers pass through byte for byte, and errors say what is wrong."""

from __future__ import annotations

import aiohttp
import pytest

from tests.replay import ReplayEngine, recording

module_loop = pytest.mark.asyncio(loop_scope="module")


@module_loop
async def test_bytes_are_relayed_on_the_openai_routes(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    for name in ("chat_plain", "chat_stream_usage", "completions_plain", "completions_stream"):
        played = engine.play(name)
        url = gateway + played.path
        async with client.post(url, json=played.request_body) as answer:
            assert answer.status == 200
            assert await answer.read() == played.body
    played = engine.play("embeddings_on_chat_model")
    async with client.post(gateway + played.path, json=played.request_body) as answer:
        assert answer.status == 400
    async with client.get(gateway + "/v1/models") as answer:
        assert [each["id"] for each in (await answer.json())["data"]] == ["m"]


@module_loop
async def test_unknown_models_are_refused_on_the_openai_route(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """This engine answers for whatever name it is given."""
    asked = recording("unknown_model").request_body
    before = len(engine.requests)
    async with client.post(gateway + "/v1/chat/completions", json=asked) as answer:
        assert answer.status == 404
        assert "error" in await answer.json()
    paths = [each.path for each in engine.requests[before:]]
    assert "/v1/chat/completions" not in paths


@module_loop
async def test_a_stream_that_begins_with_an_error_gets_its_status(
    engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """This engine says 200 and puts the error into the stream."""
    asked = engine.play("long_prompt_stream").request_body
    async with client.post(gateway + "/v1/chat/completions", json=asked) as answer:
        assert answer.status == 400
        assert "9031 tokens" in (await answer.json())["error"]["message"]


@module_loop
@pytest.mark.parametrize(
    "name",
    [
        "content_null_user",
        "empty_messages",
        "missing_messages",
        "messages_string",
        "missing_model",
        "bad_json",
        "empty_body",
    ],
)
async def test_bodies_that_break_the_engine_do_not_reach_it(
    name: str, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """It answers them with 500 in plain text, or with the JSON parser's words as error type."""
    before = len(engine.requests)
    headers = {"Content-Type": "application/json"}
    data = recording(name).request.encode()
    url = gateway + "/v1/chat/completions"
    async with client.post(url, data=data, headers=headers) as answer:
        assert answer.status == 400
        error = (await answer.json())["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"]
    paths = [each.path for each in engine.requests[before:]]
    assert "/v1/chat/completions" not in paths


@module_loop
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/invocations"])
async def test_arguments_of_the_templates_call_do_not_reach_the_engine(
    path: str, engine: ReplayEngine, gateway: str, client: aiohttp.ClientSession
) -> None:
    """It passes them to the call a second time, which is a TypeError and a bare 500."""
    before = len(engine.requests)
    kwargs = {"chat_template_kwargs": {"add_generation_prompt": False}}
    body = {"messages": [{"role": "user", "content": "x"}]}
    own = {"custom_inputs": kwargs} if path == "/invocations" else kwargs | {"model": "m"}
    async with client.post(gateway + path, json=body | own) as answer:
        assert answer.status == 400
        assert "add_generation_prompt" in await answer.text()
    assert len(engine.requests) == before
