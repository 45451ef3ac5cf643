"""The assembler: repairs, and equality of plain and streamed answers at any split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import EngineFailed, EngineUnavailable
from app.events import Event, Finished, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from app.schemas.answer import Answer, Assembler
from app.schemas.chat_agent_answer import ChunkEncoder, ChunkStream, last_chunks, response
from app.sse import SSEDecoder

PARIS = '{"city": "Paris"}'
TOKYO = '{"city": "東京 🗼"}'


def assemble(*events: Event, has_tools: bool = False) -> tuple[str, Answer]:
    """Text released on the way and at the end, and the answer."""
    assembler = Assembler("a1", has_tools=has_tools)
    released = "".join(map(assembler.feed, events))
    rest, answer = assembler.finish()
    return released + rest, answer


def in_pieces(text: str, sizes: list[int]) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [piece for piece in [*pieces, text] if piece]


sizes = st.lists(st.integers(1, 5), max_size=30)
texts = st.text(
    st.sampled_from('ab <>/_toolcahink\n[]TOLCAS東京🇯🇵\u2028\u0085\x00"\\'), min_size=1, max_size=60
)


@given(texts, sizes, st.booleans())
def test_text_is_the_same_at_any_split(text: str, cut: list[int], has_tools: bool) -> None:
    pieces = [TextDelta(piece) for piece in in_pieces(text, cut)]
    sent, answer = assemble(*pieces, Finished("stop"), has_tools=has_tools)
    assert sent == answer.content == text


@given(
    st.sampled_from(["", "Let me look.", "まず。", "a < b"]),
    st.sampled_from(["", "\n"]),
    sizes,
    sizes,
)
def test_streamed_call_with_leaking_tags_equals_the_plain_one(
    before: str, lead: str, cut: list[int], cut_arguments: list[int]
) -> None:
    call = ToolCallDelta("call_1", "get_weather", "")
    plain = assemble(
        *([TextDelta(before)] if before else []),
        ToolCallDelta("call_1", "get_weather", PARIS),
        Finished("tool_calls"),
        has_tools=True,
    )
    streamed = assemble(
        *(TextDelta(piece) for piece in in_pieces(before + lead + "<tool_call>\n", cut)),
        call,
        *(ToolCallDelta(None, None, piece) for piece in in_pieces(PARIS, cut_arguments)),
        *(TextDelta(piece) for piece in in_pieces("\n</tool_call>\nIt is sunny.", cut)),
        Finished("tool_calls"),
        has_tools=True,
    )
    assert plain == streamed
    assert plain[1].content == before
    assert plain[1].tool_calls[0].arguments == PARIS


def test_second_streamed_call_of_the_pinned_engine_is_kept_apart() -> None:
    """0.4.6.post5 sends its arguments under the first call's index, and no id."""
    _, answer = assemble(
        ToolCallDelta("call_x", "get_weather", ""),
        ToolCallDelta(None, None, PARIS),
        ToolCallDelta(None, "get_time", ""),
        ToolCallDelta(None, None, '{"zone": '),
        ToolCallDelta(None, None, '"Europe/Paris"}'),
        Finished("stop"),
        has_tools=True,
    )
    first, second = answer.tool_calls
    assert (first.id, first.arguments) == ("call_x", PARIS)
    assert (second.name, second.arguments) == ("get_time", '{"zone": "Europe/Paris"}')
    assert second.id
    assert second.id != first.id
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("arguments", ["", '{"city": ', '["Paris"]', '"Paris"', "NaN"])
def test_call_without_an_object_of_arguments_is_text(arguments: str) -> None:
    sent, answer = assemble(
        TextDelta("<tool_call>\n"),
        ToolCallDelta("call_1", "get_weather", arguments),
        Finished("tool_calls"),
        has_tools=True,
    )
    assert answer.tool_calls == ()
    assert answer.finish_reason == "stop"
    assert sent == answer.content
    assert sent.startswith('<tool_call>\n{"name": "get_weather"')
    assert arguments in sent


def test_text_after_a_broken_call_is_not_lost() -> None:
    sent, _ = assemble(
        ToolCallDelta("c", "f", "{"), TextDelta(" and more"), Finished("stop"), has_tools=True
    )
    assert sent.endswith("{ and more")


def test_cut_off_call_beside_a_whole_one_keeps_the_token_limit_as_reason() -> None:
    _, answer = assemble(
        ToolCallDelta("c1", "f", PARIS),
        ToolCallDelta("c2", "f", '{"ci'),
        Finished("length"),
        has_tools=True,
    )
    assert [call.id for call in answer.tool_calls] == ["c1"]
    assert answer.finish_reason == "length"


@given(sizes, st.booleans(), st.booleans())
def test_leaked_think_tags_end_the_reasoning(cut: list[int], opened: bool, spaced: bool) -> None:
    thought = ("<think>\n" if opened else "") + "One word.\n"
    raw = thought + "</think>" + ("\n\n" if spaced else "") + "Paris."
    leaked = assemble(*(ReasoningDelta(piece) for piece in in_pieces(raw, cut)), Finished("stop"))
    plain = assemble(ReasoningDelta("One word.\n"), TextDelta("Paris."), Finished("stop"))
    assert leaked == plain
    assert plain[1] == Answer("Paris.", reasoning="One word.")


def test_reasoning_without_an_end_is_the_answer_when_the_model_stopped_by_itself() -> None:
    sent, answer = assemble(ReasoningDelta("Paris is nice."), Finished("stop"))
    assert (sent, answer.reasoning) == ("Paris is nice.", "")


def test_reasoning_cut_by_the_limit_stays_reasoning() -> None:
    sent, answer = assemble(ReasoningDelta("The user asks"), Finished("length"))
    assert (sent, answer.reasoning) == ("", "The user asks")


@pytest.mark.parametrize("events", [[], [TextDelta("half")]])
def test_an_answer_that_broke_off_is_an_error(events: list[Event]) -> None:
    with pytest.raises(EngineUnavailable):
        assemble(*events)


def test_an_answer_that_the_engine_gave_up_is_an_error() -> None:
    with pytest.raises(EngineFailed):
        assemble(TextDelta("half"), Finished("abort"))


@given(texts, sizes, st.booleans(), st.booleans())
def test_chunks_join_to_the_response(
    text: str, cut: list[int], with_call: bool, with_usage: bool
) -> None:
    events: list[Event] = [TextDelta(piece) for piece in in_pieces(text, cut)]
    if with_call:
        events.append(ToolCallDelta("call_1", "f", TOKYO))
    events.append(Finished("stop"))
    if with_usage:
        events.append(Usage(3, 5, 8, 2))
    whole = response(assemble(*events, has_tools=True)[1], "a1")

    chunks = ChunkStream(Assembler("a1", has_tools=True))
    encoder = ChunkEncoder("a1")
    wire = b"".join(
        encoder.text(piece)
        for event in events
        if (piece := chunks.push(chunks.assembler.feed(event)))
    )
    wire += encoder.last(*chunks.finish())
    assert wire.isascii()
    sent = [json.loads(data) for data in SSEDecoder().feed(wire)]

    (message,) = whole["messages"]
    joined = "".join(chunk["delta"]["content"] for chunk in sent)
    assert joined == message["content"] or (joined, message["content"]) == ("", "")
    assert {chunk["delta"]["id"] for chunk in sent} == {message["id"]}
    assert {chunk["id"] for chunk in sent} == {whole["id"]}
    last = sent[-1]
    assert last["delta"].get("tool_calls") == message.get("tool_calls")
    assert [last.get(key) for key in ("finish_reason", "usage", "custom_outputs")] == [
        whole.get(key) for key in ("finish_reason", "usage", "custom_outputs")
    ]
    for chunk in sent[:-1]:
        assert chunk["delta"]["content"]
        assert "finish_reason" not in chunk
    assert last["delta"]["content"] or last["delta"].get("tool_calls")


def test_empty_answer_is_a_blank_in_both_modes() -> None:
    _, answer = assemble(Finished("stop"))
    (chunk,) = last_chunks("", answer, "a1")
    assert chunk["delta"] == response(answer, "a1")["messages"][0]
    assert chunk["delta"]["content"] == " "


def test_streamed_call_that_the_limit_cut_off_is_no_call() -> None:
    """SGLang's parser closes the partial JSON, so the cut call looks whole."""
    sent, answer = assemble(
        ToolCallDelta("c1", "get_weather", ""),
        ToolCallDelta(None, None, '{"city": ""}'),
        Finished("length"),
        has_tools=True,
    )
    assert answer.tool_calls == ()
    assert (sent, answer.finish_reason) == (answer.content, "length")
    assert "get_weather" in sent


def test_streamed_call_that_was_over_before_the_limit_is_kept() -> None:
    _, answer = assemble(
        ToolCallDelta("c1", "f", ""),
        ToolCallDelta(None, None, PARIS),
        TextDelta("</tool_call> and"),
        Finished("length"),
        has_tools=True,
    )
    assert [call.arguments for call in answer.tool_calls] == [PARIS]


def test_plain_call_with_the_limit_reached_is_kept() -> None:
    _, answer = assemble(ToolCallDelta("c1", "f", PARIS), Finished("length"), has_tools=True)
    assert [call.arguments for call in answer.tool_calls] == [PARIS]
