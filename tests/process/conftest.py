"""Starts the server with an engine that only pretends."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.server import ServerProcess

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")

Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(BEHAVIOUR, *options, **settings)`` starts a server with such a fake engine."""
    with ExitStack() as servers:

        def start(behaviour: str, *options: str, **settings: str) -> ServerProcess:
            number = len(list(tmp_path.glob("server-*.log")))
            python = _engine_python(tmp_path, behaviour)
            server = ServerProcess(
                tmp_path / f"server-{number}.log",
                *options,
                **{"ENGINE_PYTHON": str(python), "ENGINE_DEVICE": "cpu"} | settings,
            )
            return servers.enter_context(server)

        yield start


def _engine_python(folder: Path, behaviour: str) -> Path:
    """An executable that can be called like a Python interpreter."""
    python = folder / f"python-{behaviour}"
    command = shlex.join([sys.executable, str(FAKE_ENGINE), behaviour])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python
