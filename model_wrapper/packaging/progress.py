"""Shows that something happens while gigabytes are copied."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal

_IO = Path("/proc/self/io")
_INTERVAL = 0.5


@contextmanager
def copying(console: Console, size: int) -> Iterator[None]:
    """A line with time and bytes written, on a terminal; two lines in a log file."""
    what = f"copying {decimal(size)} of weights" if size else "logging"
    if not console.is_terminal:
        console.print(f"{what} …")
        yield
        return
    done = threading.Event()
    with console.status(what) as status:

        def show() -> None:
            started, before = time.monotonic(), bytes_written()
            while not done.wait(_INTERVAL):
                seconds = time.monotonic() - started
                written = decimal(bytes_written() - before)
                # MLflow makes two copies: in a temporary folder, then at the tracking server.
                status.update(f"{what}: {written} written, {seconds:.0f} s")

        watching = threading.Thread(target=show, daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()


def bytes_written() -> int:
    """Bytes that this process has written so far, or 0 where the system does not tell."""
    try:
        lines = _IO.read_text("ascii").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))
