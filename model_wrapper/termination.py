"""Lets SIGTERM end a process whose main thread waits for an engine.

Uvicorn and gunicorn load a model inside ``load_context`` of a worker's main thread, where a signal
is only noted until that returns. A large model loads for minutes, and a supervisor that waited
for seconds would kill the worker instead of letting it end in order.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises ``SystemExit`` after the process's own handler has seen it.

    Nothing changes outside the main thread, which alone gets signals, nor where the signal has
    its default action, which ends the process anyway.
    """
    theirs = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(theirs):
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        theirs(number, frame)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, theirs)
