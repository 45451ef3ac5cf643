"""Asking a served model over plain HTTP, whole or streamed.

Not through ``databricks-sdk``: its ``query`` drops an agent's messages, can't read a stream
(databricks-sdk-py issue 1048) and repeats a request that took long, and a generation with it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from app.sse import DONE, SSEDecoder
from model_wrapper.targets.base import JSONObject, TargetError, Unreachable

_CONNECT_SECONDS = 10
# Databricks ends a request after 597 seconds at the latest.
_ANSWER_SECONDS = 600
# Refused before anything was generated, so asking again repeats no work.
_BUSY = (429, 503)
_REPEATS = 3
_LONGEST_PAUSE = 30
PAUSE = 1.0
"""Seconds that pauses between repeats begin with, where the answer names none."""


def invoke(url: str, headers: Mapping[str, str], body: JSONObject) -> JSONObject:
    """The whole answer.

    Raises:
        TargetError: the request was refused, or the answer is no JSON object.
        Unreachable: there was no answer.
    """
    with _post(url, headers, body) as response:
        return _json_object(response.content)


def stream(url: str, headers: Mapping[str, str], body: JSONObject) -> Iterator[JSONObject]:
    """The events of a streamed answer, as they come.

    Raises:
        TargetError: the request was refused, it was not answered with a stream, or that broke off.
        Unreachable: there was no answer.
    """
    decoder = SSEDecoder()
    with _post(url, headers, {**body, "stream": True}) as response:
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise TargetError(f"asked for a stream, it answered in one piece ({kind or 'no type'})")
        # As they arrive: a fixed size would wait for that many bytes.
        for piece in response.raw.stream(decode_content=True):
            for data in decoder.feed(piece):
                if data.strip() == DONE:
                    return
                yield _json_object(data)
    raise TargetError("the stream ended before its end mark, data: [DONE]")


@contextmanager
def _post(url: str, headers: Mapping[str, str], body: JSONObject) -> Iterator[requests.Response]:
    retry = Retry(
        total=None,
        connect=0,
        read=0,
        other=0,
        redirect=0,
        status=_REPEATS,
        status_forcelist=_BUSY,
        allowed_methods={"POST"},
        backoff_factor=PAUSE,
        retry_after_max=_LONGEST_PAUSE,
        raise_on_status=False,
    )
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retry))
            with session.post(
                url,
                json=body,
                auth=_with(headers),
                timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
                stream=True,
            ) as response:
                if not response.ok:
                    raise TargetError(_refusal(response))
                yield response
    # What is read from ``raw`` raises urllib3's own exceptions.
    except (requests.RequestException, HTTPError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error


def _with(
    headers: Mapping[str, str],
) -> Callable[[requests.PreparedRequest], requests.PreparedRequest]:
    # As plain headers, a login in ~/.netrc for this host would take the token's place.
    def authenticate(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(headers)
        return request

    return authenticate


def _json_object(content: bytes) -> JSONObject:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TargetError(f"no JSON object: {content[:200].decode(errors='replace')}")
    return found


def _refusal(response: requests.Response) -> str:
    try:
        body = response.json()
        found = body.get("message") or body.get("error") or body
        message = found if isinstance(found, str) else json.dumps(found)
        code = body.get("error_code")
    except (ValueError, AttributeError):
        message, code = response.text[:500], None
    return f"{response.status_code} {code + ': ' if code else ''}{message}"
