"""For all tests."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """In a shell's background job SIGINT is ignored, and children would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
