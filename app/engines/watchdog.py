"""Tells an engine that is lost from one that is busy.

Two signs count. SGLang's worker processes (``sglang::scheduler``, ``sglang::detokenizer``) must
live: 0.4.6.post5 goes on answering its health routes for ever without them. And its scheduler must
answer a question: ``/server_info`` asks it, and waits for it, in every release that we know, while
``/health`` and ``/health_generate`` of 0.4.6.post5 say 200 in any case (measured on a GPU).
Whether tokens come is no sign: a long prompt can take its time.
"""

import asyncio
from collections.abc import Awaitable, Callable

import psutil

from app.errors import DeadlineExceeded, EngineFailed, EngineUnavailable

_LOOK_INTERVAL = 0.5
_ASK_INTERVAL = 5.0
_SLOW = 5.0
_WORKER = "sglang::"


class Watchdog:
    """Watches one run of an engine.

    Args:
        pid: of the engine's first process.
        ask: puts the question, with the seconds it may take; raises an error of ``app.errors`` if
            there is no answer.
        patience: seconds without an answer after which the engine counts as hung.
        on_silence: told once when an answer is overdue, in words.
        on_answer: told when it came after all.
    """

    def __init__(
        self,
        pid: int,
        ask: Callable[[float], Awaitable[object]],
        *,
        patience: float,
        on_silence: Callable[[str], None],
        on_answer: Callable[[], None],
    ) -> None:
        self._pid = pid
        self._ask = ask
        self._patience = patience
        self._on_silence = on_silence
        self._on_answer = on_answer

    async def until_lost(self) -> str:
        """Wait until the engine is lost, and say why."""
        signs = {
            asyncio.ensure_future(until_a_worker_is_gone(self._pid)),
            asyncio.ensure_future(self._until_it_hangs()),
        }
        try:
            seen, _ = await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            return seen.pop().result()
        finally:
            for sign in signs:
                sign.cancel()
            await asyncio.wait(signs)

    async def _until_it_hangs(self) -> str:
        clock = asyncio.get_running_loop().time
        interval = min(_ASK_INTERVAL, self._patience / 4)
        answered = clock()
        silent = False
        while True:
            left = answered + self._patience - clock()
            if left <= 0:
                return f"the engine gave no sign of life for {self._patience:.0f} s"
            asking = asyncio.ensure_future(self._answers(left))
            try:
                await asyncio.wait({asking}, timeout=min(_SLOW, left / 2))
                overdue = not asking.done() or not asking.result()
                if overdue and not silent:
                    silent = True
                    self._on_silence(f"no answer for {clock() - answered:.0f} s")
                if await asking:
                    answered = clock()
                    if silent:
                        silent = False
                        self._on_answer()
            finally:
                asking.cancel()
            await asyncio.sleep(interval)

    async def _answers(self, within: float) -> bool:
        try:
            await self._ask(within)
        except (DeadlineExceeded, EngineUnavailable):
            return False
        except EngineFailed:
            pass  # it refused, and so it lives
        return True


async def until_a_worker_is_gone(pid: int) -> str:
    """Wait until one of the engine's named processes is gone, and say which.

    Args:
        pid: of the engine's first process.
    """
    workers = _workers(pid)
    while True:
        for name, worker in workers:
            if not _is_alive(worker):
                return f"the engine lost its process {name}"
        await asyncio.sleep(_LOOK_INTERVAL)


def _workers(pid: int) -> list[tuple[str, psutil.Process]]:
    """The engine's named worker processes, with their names."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    found = []
    for child in children:
        try:
            if child.name().startswith(_WORKER):
                found.append((child.name(), child))
        except psutil.NoSuchProcess:  # a helper that has done its work
            continue
    return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
