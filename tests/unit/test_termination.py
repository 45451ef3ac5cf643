"""SIGTERM in a process that waits for its engine to load."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from model_wrapper.termination import ends_on_sigterm


@pytest.fixture
def noted() -> Iterator[list[int]]:
    """Signals that a handler like uvicorn's has seen; it only notes them."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


def sigterm_to_ourselves() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.05)  # Python runs handlers between two instructions


def test_it_ends_the_wait_and_the_other_handler_knows(noted: list[int]) -> None:
    with pytest.raises(SystemExit) as caught, ends_on_sigterm():
        sigterm_to_ourselves()
    assert caught.value.code == 128 + signal.SIGTERM
    assert noted == [signal.SIGTERM]


def test_afterwards_the_handler_is_the_old_one(noted: list[int]) -> None:
    with ends_on_sigterm():
        pass
    sigterm_to_ourselves()
    assert noted == [signal.SIGTERM]


def test_the_default_action_stays() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with ends_on_sigterm():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_can_wait_too(noted: list[int]) -> None:
    done = []

    def wait() -> None:
        with ends_on_sigterm():
            done.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert done == [True]
