"""``INVOCATIONS=openai``: the route speaks OpenAI's chat, and so do all errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.serve import announcement
from tests.unit.asgi import JSON_TYPE, Caller, ask
from tests.unit.whole_app import ManagedFake, app_before

CHAT = "http://engine/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "東京?"}]
QUESTION = [{"role": "user", "content": "Name three colours."}]


async def invoke(engine: ManagedFake, body: Any, path: str = "/invocations") -> Caller:
    app = app_before(engine, invocations="openai")
    return await ask(app, path, "POST", headers=JSON_TYPE, parts=[json.dumps(body).encode()])


@pytest.mark.parametrize("path", ["/invocations", "/serving-endpoints/chat/invocations"])
@pytest.mark.parametrize("given", [{}, {"model": None}, {"model": "name-of-the-endpoint"}])
async def test_the_model_is_filled_in(given: dict[str, Any], path: str) -> None:
    engine = ManagedFake(b'{"id": "whatever  the engine says"}')
    asked = {"messages": MESSAGES, "temperature": 0.0, "unknown": [1]}
    answer = await invoke(engine, asked | given, path)
    assert (answer.status, answer.body) == (200, b'{"id": "whatever  the engine says"}')
    assert engine.asked == [CHAT]
    (sent,) = engine.bodies
    assert json.loads(sent) == asked | {"model": "m"}


@pytest.mark.parametrize("model", ["m", "Qwen/Qwen2.5", "m:adapter"])
async def test_a_served_model_may_be_named_and_the_body_stays_as_it_is(model: str) -> None:
    engine = ManagedFake(b"{}")
    asked = {"messages": MESSAGES, "model": model}
    assert (await invoke(engine, asked)).status == 200
    assert engine.bodies == [json.dumps(asked).encode()]


async def test_streams_are_relayed() -> None:
    stream = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
    answer = await invoke(ManagedFake(stream), {"messages": MESSAGES, "stream": True})
    assert answer.body == stream
    assert (answer.header("content-type") or "").startswith("text/event-stream")


@pytest.mark.parametrize(
    ("body", "status"), [([], 400), ({"messages": MESSAGES, "stream": "yes"}, 400)]
)
async def test_errors_of_the_route_have_openais_form(body: Any, status: int) -> None:
    engine = ManagedFake(b"{}")
    answer = await invoke(engine, body)
    assert answer.status == status
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert engine.asked == []


async def test_so_have_all_others() -> None:
    app = app_before(ManagedFake(), invocations="openai", api_key="k")
    key = [(b"authorization", b"Bearer k")]
    refused = await ask(app, "/invocations", "POST")
    assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")
    for path, status in (("/nowhere", 404), ("/invocations", 405)):
        answer = await ask(app, path, headers=key)
        assert (answer.status, answer.json["error"]["type"]) == (status, "invalid_request_error")


async def test_by_default_the_route_is_mlflows() -> None:
    app = app_before(ManagedFake())
    answer = await ask(app, "/invocations", "POST", headers=JSON_TYPE, parts=[b"[]"])
    assert answer.json["error_code"] == "BAD_REQUEST"


@pytest.mark.parametrize("mode", ["chat-agent", "openai"])
async def test_the_description_can_be_had(mode: str) -> None:
    answer = await ask(app_before(ManagedFake(), invocations=mode), "/openapi.json")
    assert answer.status == 200
    described = answer.json["paths"]["/invocations"]["post"]["requestBody"]["content"]
    by_chat_agent = "custom_inputs" in described["application/json"]["example"]
    assert by_chat_agent == (mode == "chat-agent")


@pytest.mark.parametrize("mode", ["chat-agent", "openai"])
def test_the_line_to_paste_has_the_routes_form(mode: str) -> None:
    body = announcement("http://127.0.0.1:8080", mode).split("-d '")[1].split("'")[0]
    parameters = {"temperature": 0.2}
    expected = parameters if mode == "openai" else {"custom_inputs": parameters}
    assert json.loads(body) == {"messages": QUESTION, **expected}
