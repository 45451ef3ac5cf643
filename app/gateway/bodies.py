"""Reading request bodies: size, content type and JSON, each with its own clear error."""

import asyncio
import re
from email.message import Message
from email.utils import collapse_rfc2231_value

import msgspec
from starlette.requests import ClientDisconnect, Request

from app.errors import (
    MalformedRequest,
    PayloadTooLarge,
    RequestCancelled,
    RequestTimeout,
    UnsupportedMediaType,
)
from app.gateway.connection import connection_of

# Checks and encoders recurse, some with many Python frames a level, and so does the engine.
MAX_DEPTH = 100


async def read_body(request: Request, limit: int, within: float) -> bytes:
    """The body, given up when it is larger than ``limit`` bytes or takes ``within`` seconds.

    Raises:
        PayloadTooLarge: more bytes were announced or sent.
        RequestTimeout: it took too long.
        RequestCancelled: the client left while it sent.
    """
    announced = request.headers.get("content-length", "")
    if re.fullmatch("[0-9]{1,18}", announced) and int(announced) > limit:
        raise _too_large(limit)
    connection = connection_of(request.scope)
    try:
        if connection is not None and connection.has_whole_body:
            return await _collected(request, limit)
        async with asyncio.timeout(within):
            return await _collected(request, limit)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {within:g} s.") from None
    except ClientDisconnect:
        raise RequestCancelled("The client closed the request.") from None


async def _collected(request: Request, limit: int) -> bytes:
    parts = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def require_json(content_type: str | None) -> None:
    """Accept JSON in UTF-8; a missing content type counts as that.

    Raises:
        UnsupportedMediaType: anything else, with MLflow's rules for the parameters.
    """
    if not content_type or content_type == "application/json":
        return
    header = Message()
    header["content-type"] = content_type
    if header.get_content_type() != "application/json":
        raise UnsupportedMediaType("Send the body as 'Content-Type: application/json'.")
    for name, value in header.get_params(failobj=[])[1:]:
        if name.lower() != "charset":
            raise UnsupportedMediaType("The content type may have no parameter but 'charset'.")
        if collapse_rfc2231_value(value).lower().replace("-", "") != "utf8":
            raise UnsupportedMediaType("The body must be UTF-8.")


def parse_json(body: bytes) -> object:
    """Strict JSON: no NaN, no lone surrogates.

    Raises:
        MalformedRequest: the body is empty, not JSON, not UTF-8 or nested too deeply.
    """
    if not body.strip():
        raise MalformedRequest("The body is empty: send a JSON object.")
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"The body is not UTF-8 (at byte {error.start}).") from None
    except msgspec.DecodeError as error:
        # msgspec's text names what it expected and the byte, never the body's content.
        raise MalformedRequest(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    # Most bodies have fewer brackets than that in all.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise _too_deep()
    return value


def _depth_exceeds(value: object, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _too_deep() -> MalformedRequest:
    return MalformedRequest(f"The body is nested more than {MAX_DEPTH} levels deep.")


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit} bytes.")
