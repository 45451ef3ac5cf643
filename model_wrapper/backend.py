"""The server's own service, made callable from MLflow's synchronous methods.

One event loop runs in a thread of its own for the life of the process. Processes of one host
that serve the same model share one engine (``app.engines.shared``).
"""

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from queue import SimpleQueue
from typing import TypeVar

from app.engines.lifecycle import ManagedEngine
from app.engines.phases import Phase
from app.engines.shared import SharedEngine
from app.errors import EngineUnavailable
from app.runtime import build_admission, build_engine
from app.schemas.answer import Answer
from app.service import Chat, ChatService, End, Text
from app.settings import Settings

T = TypeVar("T")
JSONObject = dict[str, object]

_POLL_INTERVAL = 0.1


class Backend:
    """A service with its engine, for callers without an event loop. Safe for threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        shared = settings.engine_url is None
        self.engine: ManagedEngine = SharedEngine(settings) if shared else build_engine(settings)
        admission = build_admission(settings)
        self.service = ChatService(self.engine, admission, settings.max_messages)
        self._loop = asyncio.new_event_loop()
        # A daemon, and the thread that starts the engine: the kernel ends the engine when this
        # thread ends, so it must live as long as the process.
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat", daemon=True)
        self._thread.start()
        self.stopped = False
        self._run(self.engine.start())
        atexit.register(self.stop)

    def prepare(self, body: JSONObject) -> Chat:
        """Check a request, as soon as the engine is ready to say what it supports."""
        self.wait_until_ready()
        return self.service.prepare(body)

    def complete(self, body: JSONObject) -> tuple[Chat, Answer]:
        """The checked request and its whole answer."""
        chat = self.prepare(body)
        return chat, self._run(self.service.complete(chat))

    @contextmanager
    def stream(self, body: JSONObject) -> Iterator[tuple[Chat, Iterator[Text | End]]]:
        """The checked request and its answer piece by piece.

        Leaving the context aborts the generation in the engine if it is not at its end.
        """
        chat = self.prepare(body)
        with closing(self._pieces(chat)) as pieces:
            yield chat, pieces

    def _pieces(self, chat: Chat) -> Generator[Text | End, None, None]:
        # The loop fills the queue at the engine's pace, without a round trip between threads for
        # each piece. It holds one answer at most, which the token limit bounds.
        queue: SimpleQueue[Text | End | BaseException] = SimpleQueue()

        async def fill() -> None:
            try:
                async with aclosing(self.service.stream(chat)) as pieces:
                    async for piece in pieces:
                        queue.put(piece)
            except BaseException as error:
                queue.put(error)
                raise

        filling = asyncio.run_coroutine_threadsafe(fill(), self._loop)
        try:
            while True:
                piece = queue.get()
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
                if isinstance(piece, End):
                    return
        finally:
            filling.cancel()  # closes the service's stream, which aborts in the engine

    def wait_until_ready(self) -> None:
        """Return once the engine can answer.

        Raises:
            EngineUnavailable: it failed, or is not ready within ``engine_start_timeout``.
        """
        if self.engine.status.phase is not Phase.READY:
            self._run(self._until_ready())

    async def _until_ready(self) -> None:
        failure = asyncio.ensure_future(self.engine.failure())
        try:
            async with asyncio.timeout(self.settings.engine_start_timeout):
                while self.engine.status.phase is not Phase.READY:
                    await asyncio.wait({failure}, timeout=_POLL_INTERVAL)
                    if failure.done():
                        raise EngineUnavailable(f"The engine can't be started: {failure.result()}.")
        except TimeoutError:
            raise EngineUnavailable("The engine did not become ready in time.") from None
        finally:
            failure.cancel()

    def stop(self) -> None:
        """End the engine if it is this process's, and the loop. Further calls do nothing."""
        if self.stopped:
            return
        self.stopped = True
        atexit.unregister(self.stop)
        self._run(self.engine.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _run(self, work: Coroutine[object, object, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            future.cancel()  # an interrupted notebook cell leaves nothing behind
            raise


_backends: dict[Settings, Backend] = {}
_backends_lock = threading.Lock()


def backend_for(settings: Settings) -> Backend:
    """The process's backend for these settings, started on first use."""
    with _backends_lock:
        backend = _backends.get(settings)
        if backend is None or backend.stopped:
            backend = _backends[settings] = Backend(settings)
        return backend
