"""When each line of a growing log was written, to a few hundredths of a second."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from types import TracebackType

_LOOK_INTERVAL = 0.02


class Timeline:
    """Follows a file in a thread. Use it in a ``with`` statement, begun before the writer."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self.began = time.monotonic()
        self.lines: list[tuple[float, str]] = []
        """Seconds since the beginning, and the line."""

    def __enter__(self) -> Timeline:
        self._file.write_bytes(b"")
        self.began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def first(self, pattern: str) -> float | None:
        """Seconds until the first line that matches, None if there is none yet."""
        found = re.compile(pattern)
        return next((at for at, line in list(self.lines) if found.search(line)), None)

    def matches(self, pattern: str) -> list[str]:
        """The whole of every line that matches."""
        return [line for _, line in list(self.lines) if re.search(pattern, line)]

    def _follow(self) -> None:
        rest = b""
        with self._file.open("rb") as file:
            while not self._done.wait(_LOOK_INTERVAL):
                *lines, rest = (rest + file.read()).split(b"\n")
                at = time.monotonic() - self.began
                self.lines += [(at, line.decode("utf-8", "replace")) for line in lines]
