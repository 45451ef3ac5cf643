"""The decoder of server-sent events against a plain reading of the standard."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sse import DONE, DONE_EVENT, KEEP_ALIVE, SSEDecoder, encode_event

ENDS = ["\n", "\r\n", "\r"]


def decode(*chunks: bytes) -> list[bytes]:
    decoder = SSEDecoder()
    return [data for chunk in chunks for data in decoder.feed(chunk)]


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


# What is inside one event: data of one line or several, and fields that mean nothing to us.
texts = st.text(st.sampled_from('{"a": }:東京🇯🇵\u2028\u2029\u0085\x0b\x0c\x1c\x00 '), max_size=12)
fields = st.one_of(
    texts.map(lambda text: ("data", text)),
    texts.map(lambda text: (None, f":{text}")),
    texts.map(lambda text: (None, f"event:{text}")),
    texts.map(lambda text: (None, f"id: {text}")),
    st.just((None, "retry: 10")),
    st.just((None, "dataset: 1")),
)
sizes = st.lists(st.integers(0, 6), max_size=60)


@given(
    st.lists(st.lists(fields, max_size=4), max_size=6), st.sampled_from(ENDS), st.booleans(), sizes
)
def test_events_are_the_same_at_any_split(
    events: list[list[tuple[str | None, str]]], end: str, space: bool, cut: list[int]
) -> None:
    lead = "data: " if space else "data:"
    wire, expected = "", []
    for event in events:
        lines = [text for name, text in event if name == "data"]
        for name, text in event:
            # Without the space of the standard, a space at the front of the data is lost.
            text = text if space or name is None else text.lstrip(" ")
            wire += (lead + text if name == "data" else text) + end
        wire += end
        if lines:
            expected.append("\n".join(line if space else line.lstrip(" ") for line in lines))
    # The byte after a CR tells whether it was half of a CRLF.
    sent = in_pieces(wire.encode() + b":", cut)
    assert [data.decode() for data in decode(*sent)] == expected


@given(st.text(), sizes)
def test_what_we_write_we_can_read(text: str, cut: list[int]) -> None:
    data = json.dumps(text, ensure_ascii=False).encode()
    wire = encode_event(data) + KEEP_ALIVE + KEEP_ALIVE + encode_event(data) + DONE_EVENT
    assert decode(*in_pieces(wire, cut)) == [data, data, DONE]


def test_several_data_lines_are_one_event() -> None:
    assert decode(b"data: a\ndata:\ndata: b\n\n") == [b"a\n\nb"]


@pytest.mark.parametrize("wire", [b"", b"\n\n\n", b": ping\n\n", b"event: x\n\n", b"id: 1\r\n\r\n"])
def test_events_without_data_are_none(wire: bytes) -> None:
    assert decode(wire, b"data: x\n\n") == [b"x"]


@pytest.mark.parametrize(
    "character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e"]
)
def test_characters_that_end_lines_elsewhere_do_not_here(character: str) -> None:
    data = f'{{"t":"行1{character}行2"}}'.encode()
    wire = encode_event(data)
    assert decode(*(wire[at : at + 3] for at in range(0, len(wire), 3))) == [data]


def test_an_event_that_is_not_complete_is_not_given_out() -> None:
    assert decode(b"data: a\n\ndata: b\n") == [b"a"]
    assert decode(b"data: a\n\ndata: b") == [b"a"]


@pytest.mark.parametrize("pieces", [[b"data: a\r", b"\n\r", b"\n"], [b"data: a\r\n\r", b"\n"]])
def test_crlf_in_two_pieces_is_one_end_of_line(pieces: list[bytes]) -> None:
    assert decode(*pieces, b"data: b\r\n\r\n") == [b"a", b"b"]


def test_a_line_that_ends_between_two_pieces_does_not_end_its_event() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r\n") == [b"a\nb"]
    assert decode(b"data: a\r", b"data: b\r", b"\r", b":") == [b"a\nb"]
