"""From request to answer with an engine in memory, plain and streamed."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission import Admission, Limits
from app.engines.base import Engine, EngineInfo, JSONObject
from app.errors import EngineFailed, EngineUnavailable, InvalidRequest
from app.events import Event, Finished, TextDelta, ToolCallDelta, Usage
from app.schemas.answer import Answer
from app.service import ChatService, End, Text

USER: dict[str, Any] = {"role": "user", "content": "hi"}
ASK: dict[str, Any] = {"messages": [USER]}
TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
SGLANG = EngineInfo("sglang", ("m", "n"), "0.5.23", tool_call_parser="hermes")


class MemoryEngine:
    """Answers with given events; an exception among them is raised in its place."""

    def __init__(self, *batches: list[Event] | Exception, info: EngineInfo | None = SGLANG) -> None:
        self._batches = batches
        self._info = info
        self.asked: list[JSONObject] = []
        self.closed = 0

    @property
    def info(self) -> EngineInfo:
        if self._info is None:
            raise EngineUnavailable("not up")
        return self._info

    async def complete(self, body: JSONObject) -> list[Event]:
        return [event async for batch in self.stream(body) for event in batch]

    async def stream(self, body: JSONObject) -> AsyncGenerator[list[Event], None]:
        self.asked.append(body)
        try:
            for batch in self._batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            self.closed += 1


def service_before(engine: Engine, **limits: int) -> ChatService:
    """A service with room for everybody, or with these limits."""
    bounds = Limits(**{"running": 9, "queued": 9, "queue_timeout": 9, **limits})
    return ChatService(engine, Admission(bounds), max_messages=3)


def prepared(body: dict[str, Any], **options: Any) -> Any:
    return service_before(MemoryEngine(**options)).prepare(body)


async def streamed(engine: MemoryEngine, body: dict[str, Any] = ASK) -> tuple[list[str], Answer]:
    """The texts of the pieces, and the answer at the end."""
    service = service_before(engine)
    *texts, end = [piece async for piece in service.stream(service.prepare(body))]
    assert isinstance(end, End)
    assert all(isinstance(piece, Text) and piece.text for piece in texts)
    return [piece.text for piece in (*texts, end)], end.answer


def test_what_the_engine_is_asked() -> None:
    chat = prepared(ASK | {"custom_inputs": {"temperature": 0, "extra_body": {"x": 1}}})
    assert chat.body == {"messages": [USER], "model": "m", "temperature": 0, "x": 1}
    assert (chat.stream, chat.has_tools, chat.warnings) == (False, False, ())
    assert prepared(ASK | {"stream": True}).stream is True
    assert prepared(ASK | {"custom_inputs": TOOLS}).has_tools is True


def test_each_answer_has_its_own_id() -> None:
    assert prepared(ASK).answer_id != prepared(ASK).answer_id


@pytest.mark.parametrize(
    ("context", "user"),
    [
        ({"user_id": "u", "conversation_id": "c"}, "u"),
        ({"conversation_id": "c"}, "c"),
        ({"user_id": "", "conversation_id": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_engine_learns_who_asks(context: Any, user: str | None) -> None:
    chat = prepared(ASK | {"context": context})
    assert chat.body.get("user") == user
    assert chat.user_id == (context or {}).get("user_id")
    assert chat.conversation_id == (context or {}).get("conversation_id")


def test_the_caller_is_warned_of_what_has_no_effect() -> None:
    (warning,) = prepared(ASK | {"temperature": 1, "top_p": 1, "my secret": 2}).warnings
    assert "temperature, top_p" in warning
    assert "secret" not in warning
    (warning,) = prepared(ASK | {"foo\r\nset-cookie: x": 1, "bar": 2}).warnings
    assert "2 unknown" in warning
    assert "cookie" not in warning
    (warning,) = prepared({"messages": [USER | {"attachments": {"a": "b"}}]}).warnings
    assert "attachments" in warning
    seeded = ASK | {"custom_inputs": {"seed": 1}, "temperature": 1}
    assert len(prepared(seeded).warnings) == 2


def test_mistakes_are_found_even_before_the_engine_is_up() -> None:
    with pytest.raises(InvalidRequest):
        prepared({"messages": []}, info=None)
    with pytest.raises(EngineUnavailable):
        prepared(ASK, info=None)


pieces = st.lists(st.text(max_size=4).map(TextDelta), max_size=8)
calls = st.lists(st.just(ToolCallDelta("c", "f", json.dumps({"a": "東京"}))), max_size=2)


@given(pieces, calls, st.data())
async def test_stream_and_plain_answer_are_equal_for_any_batches(
    texts: list[Event], calls: list[Event], data: st.DataObject
) -> None:
    events = [*texts, *calls, Finished("stop"), Usage(1, 2, 3)]
    batches: list[list[Event]] = [[]]
    for event in events:
        if data.draw(st.booleans()):
            batches.append([])
        batches[-1].append(event)
    body = ASK | {"custom_inputs": TOOLS}
    service = service_before(MemoryEngine(events))
    plain = await service.complete(service.prepare(body))
    sent, streamed_answer = await streamed(MemoryEngine(*batches), body)
    assert streamed_answer == plain
    assert "".join(sent) == plain.content


async def test_text_is_sent_one_character_late_so_that_the_last_can_close_the_stream() -> None:
    batches = [[TextDelta("a")], [TextDelta("b"), TextDelta("c")], [Finished("length")]]
    sent, answer = await streamed(MemoryEngine(*batches))
    assert sent == ["ab", "c"]
    assert answer == Answer("abc", finish_reason="length")


async def test_text_so_far_is_sent_before_an_error() -> None:
    engine = MemoryEngine([TextDelta("a")], [TextDelta("b")], EngineFailed("gone"))
    service = service_before(engine)
    sent: list[Text | End] = []
    with pytest.raises(EngineFailed, match="gone"):
        sent.extend([piece async for piece in noted(service, sent)])
    assert sent == [Text("a"), Text("b")]
    assert engine.closed == 1


async def noted(service: ChatService, sent: list[Text | End]) -> AsyncGenerator[Text | End, None]:
    async for piece in service.stream(service.prepare(ASK)):
        sent.append(piece)
        yield piece


@pytest.mark.parametrize("batches", [[], [[TextDelta("a")]], [[Usage(1, 1, 2)]]])
async def test_an_answer_without_its_end_is_an_error_in_both_modes(batches: Any) -> None:
    with pytest.raises(EngineUnavailable):
        await streamed(MemoryEngine(*batches))
    service = service_before(MemoryEngine(*batches))
    with pytest.raises(EngineUnavailable):
        await service.complete(service.prepare(ASK))


async def test_closing_the_answer_closes_the_engines_stream() -> None:
    engine = MemoryEngine([TextDelta("a")], [TextDelta("b")], [Finished("stop")])
    service = service_before(engine)
    async with aclosing(service.stream(service.prepare(ASK))) as answer:
        assert await anext(answer) == Text("a")
        assert engine.closed == 0
    assert engine.closed == 1


async def test_a_failure_that_is_no_error_of_ours_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        await streamed(MemoryEngine([TextDelta("a")], ZeroDivisionError()))
