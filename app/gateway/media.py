"""Media in OpenAI's messages: SGLang would fetch any URL and open any path that it is given.

So a caller could have the server read its own files, or ask hosts that only it can reach
(server-side request forgery). What is inside the request, as a ``data:`` URL, always passes. Other
addresses pass only over https and for hosts that ``MEDIA_HOSTS`` names, and then only if they are
public: every address that the name stands for is looked at. SGLang looks the name up again when
it fetches, so name only hosts whose DNS you trust.
"""

import asyncio
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.errors import InvalidRequest

# What SGLang reads as media: parts of messages, and items to embed.
_MEDIA_KEYS = frozenset({"url", "image", "video", "audio", "file", "image_data", "audio_data"})


async def check_media(fields: dict[str, object], allowed_hosts: frozenset[str]) -> None:
    """Refuse media that the engine would have to fetch.

    Args:
        fields: of a request to one of OpenAI's routes.
        allowed_hosts: names from which it may.

    Raises:
        InvalidRequest: names the place and the way out.
    """
    for name in ("messages", "input"):
        for place, address in _addresses(fields.get(name), name):
            await _check(place, address, allowed_hosts)


def _addresses(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Every string that the engine takes for media, and where it is."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _addresses(item, f"{place}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            inside = f"{place}.{key}"
            if isinstance(item, str):
                if key in _MEDIA_KEYS or key.endswith("_url"):
                    yield inside, item
            elif key not in ("tool_calls", "arguments"):
                yield from _addresses(item, inside)


async def _check(place: str, address: str, allowed_hosts: frozenset[str]) -> None:
    if address[:5].lower() == "data:":
        return
    try:
        parts = urlsplit(address)
    except ValueError:  # half an IPv6 address
        raise _refused(place) from None
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "https" or not host or host not in allowed_hosts:
        raise _refused(place)
    if parts.username is not None or not await _is_public(host):
        raise _refused(place)


async def _is_public(host: str) -> bool:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = [ip_address(entry[4][0]) for entry in found]
    for address in addresses:
        inner = getattr(address, "ipv4_mapped", None) or address
        if not inner.is_global or inner.is_multicast:
            return False
    return bool(addresses)


def _refused(place: str) -> InvalidRequest:
    return InvalidRequest(
        f"'{place}' is not sent to the model: this server fetches nothing from elsewhere. Send the "
        "content itself as a data: URL, such as 'data:image/png;base64,…' (or have the host added "
        "to MEDIA_HOSTS).",
        field=place,
    )
