"""The API keys that pass: from the settings, and from a file that may change while we run."""

import hmac
import logging
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

log = logging.getLogger(__name__)

_LOOK_INTERVAL = 1.0


class KeyRing:
    """All keys, of which only hashes are kept.

    Args:
        key: one key, if any.
        file: one key a line; blank lines and lines that begin with ``#`` are none.
        clock: seconds that only grow; the file is looked at once a second at most.

    Raises:
        OSError: the file can't be read.
        ValueError: it has no key, or one that no client can send.
    """

    def __init__(
        self,
        key: str | None,
        file: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fixed = [_digest(key)] if key else []
        self._file = file
        self._clock = clock
        self._looked_at = clock()
        self._version = _version(file)
        self._listed = _read(file) if file else []

    def __bool__(self) -> bool:
        return bool(self._fixed or self._listed)

    def owner(self, token: bytes) -> str | None:
        """A name for the key that tells nothing of it, if it is one; in constant time."""
        self._look_at_file()
        given = sha256(token).digest()
        found = [hmac.compare_digest(given, known) for known in (*self._fixed, *self._listed)]
        return given.hex() if any(found) else None

    def _look_at_file(self) -> None:
        now = self._clock()
        if self._file is None or now - self._looked_at < _LOOK_INTERVAL:
            return
        self._looked_at = now
        version = _version(self._file)
        if version == self._version:
            return
        self._version = version
        try:
            self._listed = _read(self._file)
        except (OSError, ValueError) as error:
            # A file that is gone or half written must neither open the server nor lock all out.
            log.error("API_KEY_FILE: %s; the keys before stay", error)
        else:
            log.info("API_KEY_FILE: read again, %d keys", len(self._listed))


def _version(file: Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(file: Path) -> list[bytes]:
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"{file} has no key")
    for number, key in enumerate(keys, start=1):
        if any(character.isspace() for character in key):
            raise ValueError(f"{file}: key {number} has a blank inside")
    return [_digest(key) for key in keys]


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
