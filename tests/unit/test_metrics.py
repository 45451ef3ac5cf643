"""``/metrics``: counted once, by route and never by what a caller wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from app import __version__
from app.engines.phases import Phase, Status
from tests.unit.asgi import JSON_TYPE, Caller, ask, http_scope
from tests.unit.whole_app import ManagedFake, app_before


async def samples(app: Any, **headers: str) -> dict[tuple[str, ...], float]:
    """Name and label values of every sample."""
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    answer = await ask(app, "/metrics", headers=sent)
    assert answer.status == 200
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


async def test_requests_are_counted_by_route_and_class_of_status() -> None:
    app = app_before(ManagedFake(b"{}"))
    for path in ("/ping", "/ping", "/v1/models/a", "/v1/models/b/c"):
        assert (await ask(app, path)).status == 200
    await ask(app, "/invocations", "POST", headers=JSON_TYPE, parts=[b"[]"])
    found = await samples(app)
    total = "chat_server_requests_total"
    assert found[total, "/ping", "2xx"] == 2
    assert found[total, "/v1/models/{name:path}", "2xx"] == 2
    assert found[total, "/invocations", "4xx"] == 1
    assert found["chat_server_request_duration_seconds_count", "/ping"] == 2
    assert found["chat_server_requests_in_progress",] == 1  # the scrape


async def test_what_reaches_no_route_shares_one_label() -> None:
    app = app_before(ManagedFake(), api_key="secret")
    for number in range(20):
        await ask(app, f"/admin/{number}", f"METHOD{number}")
        await ask(app, f"/v1/models/{number}")  # no key
    found = await samples(app, authorization="Bearer secret")
    routes = [key[1:] for key in found if key[0] == "chat_server_requests_total"]
    assert routes == [("other", "4xx")]
    assert found["chat_server_requests_total", "other", "4xx"] == 40


async def test_it_asks_for_the_key() -> None:
    assert (await ask(app_before(ManagedFake(), api_key="k"), "/metrics")).status == 401


@pytest.mark.parametrize("phase", list(Phase))
async def test_the_engines_phase(phase: Phase) -> None:
    engine = ManagedFake(phase=Phase.STARTING)
    app = app_before(engine)
    engine._lifecycle.status = Status(phase, "")
    found = await samples(app)
    shown = {key[1]: value for key, value in found.items() if key[0] == "chat_server_engine_phase"}
    assert shown == {each.value: float(each is phase) for each in Phase}


async def test_the_version_is_shown() -> None:
    found = await samples(app_before(ManagedFake()))
    assert found["chat_server_build_info", __version__] == 1


async def test_applications_of_one_process_count_apart() -> None:
    first, second = app_before(ManagedFake()), app_before(ManagedFake())
    await ask(first, "/ping")
    assert ("chat_server_requests_total", "/ping", "2xx") in await samples(first)
    assert ("chat_server_requests_total", "/ping", "2xx") not in await samples(second)


async def test_a_stream_counts_as_in_progress_until_its_end() -> None:
    engine = ManagedFake(b"data: {}\n\ndata: [DONE]\n\n")
    engine.gate.clear()
    app = app_before(engine)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": true}'
    path = "/v1/chat/completions"
    asking = asyncio.create_task(ask(app, path, "POST", headers=JSON_TYPE, parts=[body]))
    while not engine.bodies:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    found = await samples(app)
    assert found["chat_server_requests_in_progress",] == 2
    assert ("chat_server_requests_total", path, "2xx") not in found
    engine.gate.set()
    assert (await asking).ended
    found = await samples(app)
    assert found["chat_server_requests_in_progress",] == 1
    assert found["chat_server_requests_total", path, "2xx"] == 1


async def test_a_request_that_was_cancelled_before_an_answer_is_counted() -> None:
    engine = ManagedFake(b"")
    engine.gate.clear()
    app = app_before(engine)
    body = b'{"model": "m", "prompt": "x", "stream": true}'
    caller = Caller([body])
    scope = http_scope("/v1/completions", "POST", JSON_TYPE)
    asking = asyncio.create_task(app(scope, caller.receive, caller.send))
    while not engine.bodies:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.wait({asking})
    found = await samples(app)
    assert found["chat_server_requests_total", "/v1/completions", "none"] == 1
    assert found["chat_server_requests_in_progress",] == 1


async def test_openmetrics_for_those_who_ask_for_it() -> None:
    accept = [(b"accept", b"application/openmetrics-text; version=1.0.0")]
    answer = await ask(app_before(ManagedFake()), "/metrics", headers=accept)
    assert (answer.header("content-type") or "").startswith("application/openmetrics-text")
    assert "chat_server_build" in {family.name for family in openmetrics(answer.body.decode())}
