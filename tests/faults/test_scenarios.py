"""What callers notice of each fault: a clean end of what was open, no lost question, and an end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import scenarios
from tests.faults.scenarios import HANG_TIMEOUT, SETTINGS, Fault, Seen, watch
from tests.process.asking import wait_until_ready
from tests.process.conftest import Start, start  # noqa: F401  the fixture
from tests.process.server import ROOT, ServerProcess

BROKEN = "error event TEMPORARILY_UNAVAILABLE, [DONE]"


def check(fault: Fault, seen: Seen) -> None:
    """What holds for every engine."""
    expected = BROKEN if fault.survives else "whole answer (length), [DONE]"
    assert seen.stream == expected
    assert seen.lost == []
    assert seen.noticed is not None
    if fault.survives:
        assert seen.recovered is not None
        # Half a look at the engine, one overdue answer, and the patience that is set.
        assert seen.noticed < 2 * HANG_TIMEOUT + 5


@pytest.mark.parametrize("fault", scenarios.OF_ANY_ENGINE, ids=lambda fault: fault.name)
def test_with_an_engine_that_pretends(fault: Fault, start: Start) -> None:  # noqa: F811
    server = start("works", **SETTINGS)
    wait_until_ready(server)
    check(fault, watch(server, fault))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    assert (ROOT / ".venv-engine" / "bin" / "python").exists(), "run: make .venv-engine"
    output = tmp_path_factory.mktemp("real") / "server.log"
    with ServerProcess(output, **SETTINGS) as server:
        server.wait_for_text("Ready: http", within=300)
        yield server


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", scenarios.OF_SGLANG, ids=lambda fault: fault.name)
def test_with_sglang(fault: Fault, real: ServerProcess) -> None:
    """One after another, on one server; the last one ends it."""
    check(fault, watch(real, fault))
