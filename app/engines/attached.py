"""An engine that somebody else runs (``ENGINE_URL``): waited for, watched, never stopped."""

import asyncio
import logging

from app.engines.lifecycle import Phase, Status, warm_up
from app.engines.openai_http import OpenAIEngine
from app.errors import ChatServerError

log = logging.getLogger(__name__)

_RETRY_INTERVAL = 2.0
_CHECK_INTERVAL = 10.0


class AttachedEngine(OpenAIEngine):
    """A running OpenAI-compatible server."""

    _watching: asyncio.Task[None] | None = None
    status = Status(Phase.LOADING, "not asked yet")

    async def start(self) -> None:
        """Begin to look for the server."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Close the connections; the server itself is left alone."""
        self.status = Status(Phase.STOPPING, "shutting down")
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        await self.close()

    async def failure(self) -> str:
        """Never comes: a server that is gone may come back."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def _watch(self) -> None:
        while True:
            try:
                await self.discover()
                if self.status.phase is not Phase.READY:
                    self.status = Status(Phase.WARMING, "generating the first tokens")
                    await warm_up(self)
                    self.status = Status(Phase.READY, f"serving {', '.join(self.info.models)}")
                    log.info("attached to %s: %s", self.url, self.info)
            except ChatServerError as error:
                if self.status.phase is not Phase.LOADING:
                    log.warning("%s: %s", self.url, error.message)
                    self.status = Status(Phase.LOADING, f"{self.url}: {error.message}")
            ready = self.status.phase is Phase.READY
            await asyncio.sleep(_CHECK_INTERVAL if ready else _RETRY_INTERVAL)
