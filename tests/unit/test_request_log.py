"""Request ids and the log line: nothing of a caller's can forge either."""

import logging
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import Overloaded
from app.gateway.metrics import Metrics
from app.gateway.request_log import RequestLog, note
from app.service import Chat
from tests.unit.asgi import ask, http_scope

LINE = re.compile(r"\S+ \S+ \d{1,3} \d+ ms id=[\w.:-]+( \w+=\S+)*")


async def inner(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/bug":
        raise RuntimeError("the caller's prompt, /etc/passwd")
    if scope["path"] == "/late-bug":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise Overloaded("busy")
    note(scope, Chat("a1", {"messages": "my secret prompt"}, False, False, (), "c-1", "u 1"))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"hi"})


# Its engine is asked by nobody here.
COUNTS = Metrics(None, None)  # type: ignore[arg-type]
APP = RequestLog(inner, COUNTS)


async def id_for(*values: bytes) -> str:
    answer = await ask(APP, headers=[(b"x-request-id", value) for value in values])
    (only,) = [value for name, value in answer.headers if name == b"x-request-id"]
    return only.decode()


@pytest.mark.parametrize("own", ["abc", "A-1.2:3_4", "f" * 128])
async def test_a_harmless_id_is_echoed(own: str) -> None:
    assert await id_for(own.encode()) == own


@pytest.mark.parametrize(
    "own",
    [
        *[b"", b"f" * 129, b"a b", b"a\r\nset-cookie: x", b"a\n", b"a\x00", "é".encode(), b"\xff"],
        *[b"<script>", b'a"b', "\u2028".encode(), b"a=b", b"../x"],
    ],
)
async def test_any_other_id_is_replaced(own: bytes) -> None:
    assert re.fullmatch("[0-9a-f]{32}", await id_for(own))


async def test_each_request_has_its_own_id() -> None:
    assert await id_for() != await id_for()


async def test_the_line_says_who_and_not_what(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await ask(APP, "/invocations", "POST", headers=[(b"x-request-id", b"r1")])
    (line,) = caplog.messages
    assert re.fullmatch(
        r"POST /invocations 200 \d+ ms id=r1 answer=a1 conversation=c-1 user=u\\x201", line
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(), user=st.none() | st.text(), conversation=st.text())
async def test_no_text_of_a_caller_can_look_like_another_line(
    path: str, user: str | None, conversation: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        note(scope, Chat("a1", {}, False, False, (), conversation, user))
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body"})

    caplog.clear()
    with caplog.at_level(logging.INFO):
        await ask(RequestLog(app, COUNTS), "/" + path)
    (line,) = caplog.messages
    assert line.isascii()
    assert line.isprintable()
    assert LINE.fullmatch(line)
    assert line.count(" user=") == bool(user)
    assert len(line) < 4000


async def test_health_is_not_logged_unless_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await ask(APP, "/ping")
    assert caplog.messages == []


async def test_a_bug_is_a_bare_error_with_its_trace_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = await ask(APP, "/bug", headers=[(b"x-request-id", b"r7")])
    assert (answer.status, answer.header("x-request-id")) == (500, "r7")
    assert answer.json["error_code"] == "INTERNAL_ERROR"
    assert "prompt" not in answer.body.decode()
    assert "passwd" not in answer.body.decode()
    assert "request r7 failed" in caplog.messages
    assert caplog.records[0].exc_info


async def test_a_bug_after_the_status_line_is_logged_and_nothing_is_sent_twice() -> None:
    answer = await ask(APP, "/late-bug")
    assert (answer.status, answer.body, answer.ended) == (200, b"", False)


async def test_the_servers_own_events_pass() -> None:
    async def lifespan(scope: Any, receive: Any, send: Any) -> None:
        scope["seen"] = True

    scope = http_scope() | {"type": "lifespan"}
    await RequestLog(lifespan, COUNTS)(scope, None, None)  # type: ignore[arg-type]
    assert scope["seen"]
