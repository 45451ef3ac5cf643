"""An engine with a life: what the server asks of it, and the warm-up that makes it ready."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from app.engines.base import Engine, JSONObject
from app.engines.openai_http import OpenAIEngine
from app.engines.phases import Status
from app.errors import EngineFailed, InvalidRequest

log = logging.getLogger(__name__)


class ManagedEngine(Engine, Protocol):
    """An engine that the server starts, watches and stops."""

    @property
    def status(self) -> Status:
        """Where it is now."""

    @property
    def restarts(self) -> int:
        """How often it was lost and started again."""

    async def start(self) -> None:
        """Begin to bring it up; returns at once."""

    def drain(self) -> None:
        """Begin to shut down: it is no longer ready, and goes on answering."""

    async def hang_up(self) -> None:
        """End all requests that are open, with an error that says why."""

    def kill(self) -> None:
        """Don't let it end in order: ``stop`` has nothing to wait for then."""

    async def stop(self) -> None:
        """End it and whatever it started."""

    async def failure(self) -> str:
        """Wait until it has failed for good, and say why. May wait for ever."""


# Sampling with all of top_p, top_k and min_p reaches kernels that greedy requests never touch;
# an engine that compiles them at run time did so for 102 s at the first such request, while it
# called itself healthy. The penalty is a function that newer engines compile at its first use.
_SAMPLED: JSONObject = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.01,
    "repetition_penalty": 1.05,
}
_HELLO: JSONObject = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}


async def warm_up(engine: OpenAIEngine) -> None:
    """Send the requests that load every common kernel, so that no user waits for one.

    Greedy, sampled (the same prompt again, so from the prefix cache), streamed, with a grammar, and
    with a system message, to learn whether the model takes one.

    Raises:
        ChatServerError: the engine can't generate.
    """
    hello = {**_HELLO, "model": engine.found.models[0]}
    await engine.complete({**hello, "temperature": 0})
    if not await engine.complete({**hello, **_SAMPLED}):
        raise EngineFailed("The engine generated nothing.")
    await _drain(engine.stream({**hello, **_SAMPLED}))
    try:
        await engine.complete({**hello, "regex": "[ab]+"})
    except InvalidRequest:
        log.info("the engine does no structured output")
    await _learn_of_system_messages(engine, hello)


async def _learn_of_system_messages(engine: OpenAIEngine, hello: JSONObject) -> None:
    """Some templates, Gemma's for one, raise at a system message: a status 400, or a bare 500."""
    both = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    try:
        await engine.complete({**hello, "temperature": 0, "messages": both})
    except (InvalidRequest, EngineFailed):
        log.info("the model takes no system message: it is put before the first user's")
        engine.learn(takes_system=False)
    else:
        engine.learn(takes_system=True)


async def _drain(stream: AsyncGenerator[object, None]) -> None:
    async with aclosing(stream):
        async for _ in stream:
            pass
