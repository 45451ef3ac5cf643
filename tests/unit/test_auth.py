"""The API key: which routes ask for it, and what passes for it."""

from typing import Any

import pytest

from app.gateway.auth import OPEN_ROUTES, BearerAuth
from app.gateway.keys import KeyRing
from tests.unit.asgi import ask

KEY = "schlüssel-鍵"


async def inner(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})
    else:
        await send({"type": "seen"})


APP = BearerAuth(inner, KeyRing(KEY))


async def status(path: str, *values: bytes) -> int:
    headers = [(b"authorization", value) for value in values]
    return (await ask(APP, path, "POST", headers=headers)).status


@pytest.mark.parametrize("value", [b"Bearer %s", b"bearer %s", b"BEARER   %s  "])
async def test_the_right_key_passes(value: bytes) -> None:
    assert await status("/invocations", value % KEY.encode()) == 200


@pytest.mark.parametrize(
    "value",
    [
        *[b"", b"Bearer", b"Bearer ", KEY.encode(), b"Basic " + KEY.encode(), b"Bearer wrong"],
        *[
            b"Bearer " + KEY.encode()[:-1],
            b"Bearer " + KEY.encode() + b"x",
            b"Bearer\x00" + KEY.encode(),
        ],
        *[b"Bearer " + KEY.encode("utf-16"), b"Bearer " + KEY.upper().encode(), b"\xff" * 10_000],
    ],
)
async def test_other_keys_do_not(value: bytes) -> None:
    assert await status("/invocations", value) == 401


async def test_only_the_first_of_several_keys_counts() -> None:
    right = b"Bearer " + KEY.encode()
    assert await status("/invocations", b"Bearer wrong", right) == 401
    assert await status("/invocations") == 401


@pytest.mark.parametrize("path", sorted(OPEN_ROUTES))
async def test_health_is_open(path: str) -> None:
    assert await status(path) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/version",
        "/ping/",
        "//ping",
        "/PING",
        "/health/ready/x",
        "/v1/models",
    ],
)
async def test_everything_else_is_not(path: str) -> None:
    assert await status(path) == 401


async def test_the_refusal_has_the_form_of_its_route() -> None:
    mlflow = await ask(APP, "/invocations")
    assert mlflow.json["error_code"] == "UNAUTHENTICATED"
    assert mlflow.header("www-authenticate") == "Bearer"
    openai = await ask(APP, "/v1/chat/completions")
    assert openai.json["error"]["type"] == "authentication_error"
    assert KEY not in openai.body.decode()


async def test_the_servers_own_events_pass() -> None:
    seen: list[Any] = []

    async def send(message: Any) -> None:
        seen.append(message)

    await APP({"type": "lifespan"}, None, send)  # type: ignore[arg-type]
    assert seen == [{"type": "seen"}]
