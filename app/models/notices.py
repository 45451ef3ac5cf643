"""What the person who started the server is told: progress, and why there is no model."""

import sys


class ModelUnavailable(Exception):
    """MODEL can't be had; the text is one sentence for the person who set it."""


def say(text: str) -> None:
    """Print a line of progress; on stderr, because stdout carries the result."""
    print(f"model: {text}", file=sys.stderr, flush=True)
