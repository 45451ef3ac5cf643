"""Media that the engine would fetch: nothing but what is inside the request passes."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest
from app.gateway.media import check_media

PIXEL = "data:image/png;base64,iVBORw0KGgo="
NONE = frozenset[str]()
HOSTS = frozenset({"images.example"})


def chat(part: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, part]}]}


def image(url: Any) -> dict[str, Any]:
    return chat({"type": "image_url", "image_url": {"url": url}})


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Make every name stand for these addresses."""

    def found(host: str, port: int, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest.mark.parametrize(
    "fields",
    [
        image(PIXEL),
        image(PIXEL.replace("data:", "DATA:")),
        chat({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        {"messages": [{"role": "user", "content": "see http://169.254.169.254/ and file:///x"}]},
        {"input": ["http://10.0.0.1/ is text here", "b"]},
        {"messages": None, "input": 3},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "f", "arguments": {"url": "http://x"}}}],
                }
            ]
        },
    ],
)
async def test_what_is_in_the_request_passes(fields: dict[str, Any]) -> None:
    await check_media(fields, NONE)


ADDRESSES = [
    *("http://images.example/a.png", "https://images.example/a.png", "ftp://x/a", "//x/a"),
    *("file:///etc/passwd", "/etc/passwd", "a.png", "iVBORw0KGgo=", "", "https://", "https://["),
    *("http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "http://0x7f.1/"),
    *("http://169.254.169.254/latest", "HTTP://LOCALHOST/", "gopher://x", " data:x"),
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "place",
    [
        image,
        lambda address: chat({"type": "image_url", "image_url": address}),
        lambda address: chat({"type": "video_url", "video_url": {"url": address}}),
        lambda address: chat({"type": "audio_url", "audio_url": {"url": address}}),
        lambda address: {"input": [{"content": [{"type": "input_image", "image_url": address}]}]},
        lambda address: {"input": [{"content": [{"type": "input_file", "file_url": address}]}]},
        lambda address: {"input": [{"text": "a", "image": address}]},
    ],
)
async def test_everything_else_is_refused_with_its_place(place: Any, address: str) -> None:
    fields = place(address)
    with pytest.raises(InvalidRequest, match="data: URL") as caught:
        await check_media(fields, NONE)
    assert caught.value.field
    assert caught.value.field.startswith(("messages[0]", "input[0]"))
    assert not address or len(address) < 3 or address not in caught.value.message


async def test_a_host_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "93.184.215.14")
    await check_media(image("https://images.example/a.png"), HOSTS)
    await check_media(image("https://IMAGES.example.:443/a.png"), HOSTS)
    for other in (
        "http://images.example/a.png",
        "https://images.example.evil/a.png",
        "https://user@images.example/a.png",
        "https://evil/?images.example",
        "https://images.example@evil/",
    ):
        with pytest.raises(InvalidRequest):
            await check_media(image(other), HOSTS)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1",
     "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "fd00::1", "::ffff:10.0.0.1"],
)  # fmt: skip
async def test_an_allowed_name_that_stands_for_a_private_address(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, "93.184.215.14", address)
    with pytest.raises(InvalidRequest):
        await check_media(image("https://images.example/a.png"), HOSTS)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "image_url", "a", "text", "image"]), inner)
    ),
    max_leaves=12,
)


@given(json, st.sampled_from(["messages", "input"]))
async def test_any_json_is_passed_or_refused(value: Any, name: str) -> None:
    with contextlib.suppress(InvalidRequest):  # anything else is a fault
        await check_media({name: value}, NONE)
