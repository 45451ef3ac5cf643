"""Reading bodies: the limit while reading, content types, strict JSON."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from app.errors import (
    MalformedRequest,
    PayloadTooLarge,
    RequestCancelled,
    RequestTimeout,
    UnsupportedMediaType,
)
from app.gateway.bodies import MAX_DEPTH, parse_json, read_body, require_json
from tests.unit.asgi import Caller, http_scope


def request(parts: Iterable[bytes], announced: bytes | None = None) -> tuple[Request, Caller]:
    headers = [(b"content-length", announced)] if announced is not None else []
    caller = Caller(list(parts))
    return Request(http_scope(headers=headers), caller.receive), caller


async def test_chunks_are_joined() -> None:
    body, _ = request([b"a", b"", b"b" * 8, b"c"])
    assert await read_body(body, limit=10, within=60) == b"abbbbbbbbc"


async def test_chunked_body_is_given_up_as_soon_as_it_is_too_large() -> None:
    body, caller = request([b"12345", b"678901", b"never read"])
    with pytest.raises(PayloadTooLarge):
        await read_body(body, limit=10, within=60)
    assert caller.parts == [b"never read"]


async def test_an_announced_size_is_believed_before_anything_is_read() -> None:
    body, caller = request([b"small"], announced=b"11")
    with pytest.raises(PayloadTooLarge):
        await read_body(body, limit=10, within=60)
    assert caller.parts == [b"small"]


@pytest.mark.parametrize("announced", [b"3", b"", b"-5", b"\xb2", b"9" * 5000, b"1e9", b"0x99"])
async def test_odd_announcements_are_left_to_the_http_server(announced: bytes) -> None:
    body, _ = request([b"abc"], announced)
    assert await read_body(body, limit=10, within=60) == b"abc"


async def test_a_client_that_leaves_while_it_sends() -> None:
    caller = Caller([b"abc"], leaves_in_body=True)
    with pytest.raises(RequestCancelled):
        await read_body(Request(http_scope(), caller.receive), limit=10, within=60)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF8"',
        "application/json; charset*=utf-8''utf-8",
    ],
)
def test_json_in_utf8_is_read(content_type: str | None) -> None:
    require_json(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json; charset",
        "application/json; foo=bar",
        "application/json; charset=utf-8; foo=bar",
        "application/json, text/plain",
        "jsonp/x",
        "\xff\x00;;=",
    ],
)
def test_other_types_are_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        require_json(content_type)
    assert content_type not in caught.value.message


@given(st.text(max_size=40))
def test_any_content_type_is_taken_or_refused(text: str) -> None:
    try:
        require_json("application/json;" + text)
    except UnsupportedMediaType:
        return
    assert "charset" in text.lower() or not text.strip()


@pytest.mark.parametrize(
    "body",
    [
        *[b"", b" \n", b"{", b'{"a":1}{', b'{"a":1,}', b"{'a':1}", b"NaN", b'{"a":Infinity}', b"-"],
        *[b'"\xff"', b'"\\ud800"', b'"\xed\xa0\x80"', b'"\x01"', b'"\\x41"', b"\xef\xbb\xbf{}"],
        *['{"a":1}'.encode("utf-16"), b"1e999", b"1" * 5000, b"01", b"// c\n{}", b"\x00"],
    ],
)
def test_what_is_not_strict_json_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_json(body)


@given(st.text(min_size=3), st.sampled_from(["%s", '{"%s', '{"a": %s}', '["%s", tru]', '"%s\x00"']))
def test_the_error_does_not_quote_the_body(text: str, form: str) -> None:
    secret = "<<" + text + ">>"
    with pytest.raises(MalformedRequest) as caught:
        parse_json((form % secret).encode("utf-8", "surrogatepass"))
    assert secret not in caught.value.message


def test_the_last_of_equal_keys_counts() -> None:
    assert parse_json(b'{"a": 1, "a": 2, "\\u0061": 3}') == {"a": 3}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_depth_has_a_limit(opening: str, closing: str) -> None:
    def body(depth: int) -> bytes:
        core = "1" if closing == "}" else ""
        wide = "[],{}," * MAX_DEPTH
        return f"[{wide}{opening * (depth - 1)}{core}{closing * (depth - 1)}]".encode()

    assert parse_json(body(MAX_DEPTH)) == json.loads(body(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(MalformedRequest, match="deep"):
            parse_json(body(depth))


def test_brackets_inside_strings_are_no_depth() -> None:
    text = "[{" * 1000
    assert parse_json(json.dumps([text]).encode()) == [text]


async def test_a_body_that_does_not_come() -> None:
    async def receive() -> Any:
        await asyncio.sleep(60)

    slow = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
        await read_body(slow, limit=10, within=0.05)
