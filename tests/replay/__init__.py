"""Plays recorded SGLang answers to the gateway, so that it can be tested without a GPU."""

from tests.replay.engine import ReplayEngine
from tests.replay.recordings import (
    Recording,
    chat_recordings,
    made_answer,
    made_stream,
    pairs,
    recording,
    recordings,
)

__all__ = [
    "Recording",
    "ReplayEngine",
    "chat_recordings",
    "made_answer",
    "made_stream",
    "pairs",
    "recording",
    "recordings",
]
