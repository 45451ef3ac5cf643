"""Plays recorded SGLang answers to the gateway, so that it can be tested without a GPU."""

from tests.replay.engine import ReplayEngine
from tests.replay.made import USAGE, made_answer, made_chunk, made_stream
from tests.replay.recordings import (
    Recording,
    chat_recordings,
    pairs,
    recording,
    recordings,
)

__all__ = [
    "USAGE",
    "Recording",
    "ReplayEngine",
    "chat_recordings",
    "made_answer",
    "made_chunk",
    "made_stream",
    "pairs",
    "recording",
    "recordings",
]
