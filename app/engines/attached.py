"""An engine that somebody else runs (``ENGINE_URL``): waited for, watched, never stopped."""

import asyncio
import logging

from app.engines.lifecycle import warm_up
from app.engines.openai_http import OpenAIEngine
from app.engines.phases import Phase
from app.errors import ChatServerError

log = logging.getLogger(__name__)

_RETRY_INTERVAL = 2.0
_CHECK_INTERVAL = 10.0


class AttachedEngine(OpenAIEngine):
    """A running OpenAI-compatible server."""

    restarts = 0
    _watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for the server."""
        self._lifecycle.enter(Phase.LOADING, "not asked yet")
        self._watching = asyncio.create_task(self._watch())

    def kill(self) -> None:
        """Nothing: the server is not ours."""

    async def stop(self) -> None:
        """Close the connections; the server itself is left alone."""
        self.drain()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        await self.close()
        self._lifecycle.enter(Phase.STOPPED, "shut down")

    async def failure(self) -> str:
        """Never comes: a server that is gone may come back."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def _watch(self) -> None:
        while True:
            try:
                await self.discover()
                if self._lifecycle.phase is not Phase.READY:
                    self._lifecycle.enter(Phase.WARMING, "generating the first tokens")
                    await warm_up(self)
                    log.info("attached to %s: %s", self.url, self.found)
                    self._lifecycle.enter(Phase.READY, f"serving {', '.join(self.found.models)}")
            except ChatServerError as error:
                self._lost(error)
            ready = self._lifecycle.phase is Phase.READY
            await asyncio.sleep(_CHECK_INTERVAL if ready else _RETRY_INTERVAL)

    def _lost(self, error: ChatServerError) -> None:
        """It does not answer: said once, as long as it has been."""
        was = self._lifecycle.phase
        if was is Phase.READY:
            self._lifecycle.enter(Phase.DEGRADED, f"{self.url}: {error.message}")
        elif was is Phase.WARMING:
            self._lifecycle.enter(Phase.LOADING, f"{self.url}: {error.message}")
