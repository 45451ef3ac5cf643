"""The whole application in front of an engine that the test plays."""

from __future__ import annotations

import asyncio
from typing import Any

from app.engines.phases import Phase, Status
from app.gateway.app import create_app
from app.settings import Settings
from tests.unit.test_openai_relay import FakeEngine


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

    async def chunks(self, answer: Any) -> Any:
        await self.gate.wait()
        async for chunk in super().chunks(answer):
            yield chunk


def app_before(engine: ManagedFake, **settings: Any) -> Any:
    """The application, without its start and stop."""
    return create_app(Settings(_env_prefix="UNSET_", **settings), engine)
