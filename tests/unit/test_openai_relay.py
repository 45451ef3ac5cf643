"""The OpenAI routes: what reaches the engine, and whole events only on the way back."""

import contextlib
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from app.engines.base import EngineInfo
from app.engines.openai_http import OpenAIEngine, with_rid
from app.engines.phases import Phase
from app.engines.relay import relay_stream
from app.errors import ChatServerError, EngineUnavailable, InvalidRequest
from app.gateway.openai_relay import routes
from app.runtime import build_admission
from app.settings import Settings
from app.sse import SSEDecoder
from tests.unit.asgi import JSON_TYPE, Caller, ask


class FakeAnswer:
    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    def header(self, name: bytes) -> str | None:
        return {b"content-type": "application/json"}.get(name)

    async def read(self) -> bytes:
        return b"".join(self._chunks)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class FakeEngine(OpenAIEngine):
    """Notes what it is asked, and answers in chunks that the test chooses."""

    def __init__(self, *chunks: bytes) -> None:
        super().__init__("http://engine")
        self._info = EngineInfo("openai", ("m", "Qwen/Qwen2.5"))
        for phase in (Phase.LOADING, Phase.WARMING, Phase.READY):
            self._lifecycle.enter(phase, "")
        self.asked: list[str] = []
        self.fed = chunks

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes, *, stream: bool = False
    ) -> AsyncIterator[Any]:
        self.asked.append(self.url + path)
        yield self.answer(stream)

    def answer(self, stream: bool) -> FakeAnswer:
        return FakeAnswer(*self.fed)


async def call(engine: FakeEngine, path: str, body: Any = None) -> Caller:
    app = FastAPI()
    app.router.routes += routes(Settings(), engine, build_admission(Settings()))
    method, parts = ("GET", [b""]) if body is None else ("POST", [json.dumps(body).encode()])
    try:
        return await ask(app, path, method, headers=JSON_TYPE, parts=parts)
    except ChatServerError as error:
        return Caller(status=error.kind.status)


@pytest.mark.parametrize(
    "name", ["m", "Qwen/Qwen2", "日本", "a b", "a?b=c", "a#b", "...", "%2e%2e"]
)
async def test_models_are_asked_for_by_their_names(name: str) -> None:
    engine = FakeEngine(b"{}")
    assert (await call(engine, f"/v1/models/{name}")).status == 200
    (url,) = engine.asked
    assert unquote(url) == f"http://engine/v1/models/{name}"
    assert unquote(urlsplit(url).path) == f"/v1/models/{name}"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/../../flush_cache",
        "/v1/models/..",
        "/v1/models/m/../../../get_server_info",
        "/v1/models/./m",
        "/v1/responses/..",
    ],
)
async def test_no_path_leads_out_of_the_routes(path: str) -> None:
    engine = FakeEngine(b"{}")
    assert (await call(engine, path)).status == 404
    assert engine.asked == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "m"}, 200),
        ({"model": "m:adapter", "stream": None}, 200),
        ({"model": "m", "stream": "yes"}, 400),
        ({"model": "m", "stream": 1}, 400),
        ({"model": "m", "stream": 0}, 400),
        ({"model": "m", "stream": ""}, 400),
        ({"model": "m", "stream": {}}, 400),
        ({"model": "x"}, 404),
        ({"model": ["m"]}, 400),
        ({}, 400),
        ([], 400),
        ({"model": "m", "deep": json.loads("[" * 200 + "]" * 200)}, 400),
    ],
)
async def test_bodies(body: Any, status: int) -> None:
    engine = FakeEngine(b"{}")
    assert (await call(engine, "/v1/completions", body)).status == status
    assert len(engine.asked) == (status == 200)


@pytest.mark.parametrize("name", ["embeddings", "rerank", "score"])
async def test_what_is_never_a_stream_is_passed_on_whole(name: str) -> None:
    """Engines pay no heed to ``stream`` there, and their answer has no ``[DONE]`` to wait for."""
    answer = await call(FakeEngine(b'{"data": []}'), f"/v1/{name}", {"model": "m", "stream": True})
    assert (answer.status, answer.json) == (200, {"data": []})
    assert answer.header("content-type") == "application/json"


async def test_what_ends_the_engine_does_not_reach_it() -> None:
    engine = FakeEngine(b"{}")
    engine._info = EngineInfo("sglang", ("m",), "0.5.23")
    messages = [{"role": "user", "content": "hi"}]
    for path, body in (("chat/completions", {"messages": messages}), ("completions", {})):
        answer = await call(engine, f"/v1/{path}", {"model": "m", "top_k": 2**31, **body})
        assert answer.status == 400
    assert engine.asked == []
    assert (await call(engine, "/v1/completions", {"model": "m", "prompt": "hi"})).status == 200


objects = st.dictionaries(st.text(max_size=4) | st.just("rid"), st.integers() | st.text())


@given(objects, st.sampled_from(["", " ", "\n\t "]), st.none() | st.integers(0, 2))
def test_our_request_id_wins_and_nothing_else_changes(
    body: dict[str, Any], space: str, indent: int | None
) -> None:
    raw = f"{space}{json.dumps(body, indent=indent)}{space}".encode()
    assert json.loads(with_rid(raw, "r1")) == body | {"rid": "r1"}
    assert with_rid(b"{" + space.encode() + b"}", "r1").count(b",") == 0


EVENTS = ['{"a":"東京"}', '{"b":"\u2028"}', "[DONE]"]


def stream_of(events: list[str], end: str) -> bytes:
    return "".join(f"data: {data}{end}{end}" for data in events).encode()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


async def relayed(sent: bytes, places: list[int]) -> tuple[list[bytes], ChatServerError | None]:
    """The pieces passed on of a stream that comes in other pieces, and how it ended."""
    pieces: list[bytes] = []
    try:
        async for piece in relay_stream(
            FakeEngine(*cut(sent, places)), "/", b"", contextlib.nullcontext()
        ):
            pieces.append(piece)
    except ChatServerError as error:
        return pieces, error
    return pieces, None


places = st.lists(st.integers(0, 200), max_size=20)


@given(st.sampled_from(["\n", "\r\n", "\r"]), places)
async def test_pieces_are_whole_events_and_join_to_the_same_bytes(
    end: str, places: list[int]
) -> None:
    # One more byte, as a lone CR may be half of a line's end.
    sent = stream_of(EVENTS, end) + b"\n"
    pieces, error = await relayed(sent, places)
    assert error is None
    assert b"".join(pieces) == sent
    assert all(piece.endswith((end + end).encode()) for piece in pieces[:-1])


@given(st.integers(0, 10_000), places)
async def test_of_a_stream_that_breaks_off_only_whole_events_are_passed_on(
    place: int, places: list[int]
) -> None:
    sent = stream_of(EVENTS[:2], "\n")
    broken = sent[: place % len(sent)]
    pieces, error = await relayed(broken, places)
    assert isinstance(error, EngineUnavailable)
    whole = len(SSEDecoder().feed(broken))
    assert b"".join(pieces) == stream_of(EVENTS[:whole], "\n")


@given(places)
async def test_an_error_in_the_first_event_is_raised_and_not_passed_on(places: list[int]) -> None:
    told = {"error": {"message": "top_p must be in (0, 1], got 3.", "code": 400}}
    pieces, error = await relayed(stream_of([json.dumps(told), "[DONE]"], "\n"), places)
    assert pieces == []
    assert isinstance(error, InvalidRequest)
    assert "top_p" in error.message
