"""The first questions to a new endpoint: one plain, one streamed."""

import time
from dataclasses import dataclass

from model_wrapper.targets.asking import piece_of, question, text_of
from model_wrapper.targets.base import Target, TargetError

_TEXT = "Name three colours."


@dataclass(frozen=True)
class Smoke:
    """What came back."""

    plain: str
    """The answer's text."""
    seconds: float
    """That the plain answer took."""
    pieces: int
    """Of the streamed answer that had text."""
    first_piece: float | None
    """Seconds until the first of them."""
    stream_error: str | None


def smoke_test(target: Target, endpoint: str, interface: str) -> Smoke:
    """Ask twice.

    An endpoint that does not stream still serves, so that is told and not raised.

    Raises:
        TargetError: there was no plain answer.
    """
    body = question(interface, _TEXT, max_tokens=32, temperature=0.2)
    began = time.monotonic()
    plain = text_of(interface, target.invoke(endpoint, body))
    seconds = time.monotonic() - began
    began = time.monotonic()
    first: float | None = None
    pieces = 0
    error = None
    try:
        for event in target.stream(endpoint, body):
            if piece_of(interface, event):
                pieces += 1
                first = first or time.monotonic() - began
    except TargetError as refused:
        error = str(refused)
    if not error and not pieces:
        error = "the stream had no text"
    return Smoke(plain, seconds, pieces, first, error)
