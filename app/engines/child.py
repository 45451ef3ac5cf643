"""A child process in its own process group: logs pumped, death noticed, ended without orphans."""

import asyncio
import logging
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

_GUARD = Path(__file__).with_name("guarded_launch.py")
_TAIL_LINES = 30
_MAX_LINE = 2000
_LAST_LINES_WITHIN = 0.5
_GONE_WITHIN = 30.0
_GONE_POLL = 0.1


class ChildProcess:
    """One run of a program."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        pipe: asyncio.ReadTransport,
        name: str,
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._log = logging.getLogger(name)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._pump = asyncio.create_task(self._pump_log(output))

    @classmethod
    async def start(cls, argv: list[str], environment: dict[str, str], name: str) -> Self:
        """Start a program.

        Args:
            argv: program and arguments; never a shell string.
            environment: its whole environment.
            name: prefix of its log lines, and the logger they go to.
        """
        # A pipe of our own: asyncio's wait() returns only when the pipes that it made itself are
        # closed, which a child of a dead engine can keep open for ever.
        read_end, write_end = os.pipe()
        output, pipe = await _reader(read_end)
        try:
            process = await asyncio.create_subprocess_exec(
                *guarded(argv),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT,
                # Its own session: Ctrl-C in the terminal reaches us alone, and we end it in order.
                start_new_session=True,
            )
        except BaseException:
            pipe.close()
            raise
        finally:
            os.close(write_end)
        return cls(process, output, pipe, name)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that it printed."""
        return tuple(self._tail)

    @property
    def pid(self) -> int:
        """Its process id, also the id of its process group."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for its end and its last lines; return its exit status, negative for a signal."""
        status = await self._process.wait()
        # Not for long: its children may hold the pipe open.
        await asyncio.wait({self._pump}, timeout=_LAST_LINES_WITHIN)
        return status

    def kill(self) -> None:
        """SIGKILL for the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self, grace: float) -> None:
        """SIGTERM, ``grace`` seconds later SIGKILL for the whole group, and reap."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace)
            except TimeoutError:
                self._log.warning("still there %.0f s after SIGTERM: killing it", grace)
        # Children of a leader that died first are in the group all the same.
        self.kill()
        await self._process.wait()
        await self._until_group_is_gone()
        await asyncio.wait({self._pump}, timeout=1)
        self._pump.cancel()
        self._pipe.close()

    async def _until_group_is_gone(self) -> None:
        """A dead process holds its GPU's memory until the driver has cleaned up after it."""
        for _ in range(int(_GONE_WITHIN / _GONE_POLL)):
            if not _has_living_members(self._process.pid):
                return
            await asyncio.sleep(_GONE_POLL)
        self._log.warning("some of its processes can't be killed")

    async def _pump_log(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while data := await output.read(2**16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._log_line(line)
            rest = rest[-_MAX_LINE:]
        self._log_line(rest)

    def _log_line(self, raw: bytes) -> None:
        # Progress bars rewrite their line after a carriage return: the last state is what counts.
        line = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1][:_MAX_LINE].decode("utf-8", "replace")
        if line.strip():
            self._tail.append(line)
            self._log.info("%s", line)


def guarded(argv: list[str]) -> list[str]:
    """The same program, but one that dies when this process does."""
    return [sys.executable, str(_GUARD), str(os.getpid()), *argv]


def _has_living_members(group: int) -> bool:
    """Whether a process group has a member that is more than an entry waiting to be reaped."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, pipe
