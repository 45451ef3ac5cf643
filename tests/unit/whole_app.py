"""The whole application in front of an engine that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from app.engines.phases import Phase, Status
from app.gateway.app import create_app
from app.settings import Settings
from tests.unit.test_openai_relay import FakeAnswer, FakeEngine


class GatedAnswer(FakeAnswer):
    def __init__(self, gate: asyncio.Event, *chunks: bytes) -> None:
        super().__init__(*chunks)
        self._gate = gate

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._gate.wait()
        for chunk in self._chunks:
            yield chunk


class ManagedFake(FakeEngine):
    """Up at once; keeps what it is sent."""

    restarts = 0

    def __init__(self, *chunks: bytes, phase: Phase = Phase.READY) -> None:
        super().__init__(*chunks)
        self._lifecycle.status = Status(phase, "as the test says")
        self.bodies: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def request(self, method: str, path: str, body: bytes, *, stream: bool = False) -> Any:
        self.bodies.append(body)
        return super().request(method, path, body, stream=stream)

    def answer(self, stream: bool) -> FakeAnswer:
        return GatedAnswer(self.gate, *self.fed) if stream else super().answer(stream)


def app_before(engine: ManagedFake, **settings: Any) -> Any:
    """The application, without its start and stop."""
    return create_app(Settings(_env_prefix="UNSET_", **settings), engine)
