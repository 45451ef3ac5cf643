"""One real server with the real model, for all tests in this folder.

It ends with them: even an idle engine on the CPU keeps a core busy.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.asking import Invocations
from tests.e2e.engine import RealEngine
from tests.process.server import ServerProcess

# The first start converts the model, and the machine may do other things besides.
START = 420
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first waits for the engine."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(START + 60))


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """``python -m app serve``, ready; afterwards it has to end well."""
    folder = tmp_path_factory.mktemp("e2e")
    # Like the CPU image, it has no compiler to use, and nothing that was compiled before.
    without_compiler = {"CXX": "/nowhere/c++", "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    with ServerProcess(folder / "server.log", **without_compiler) as server:
        server.wait_for_text(r"Ready: http", within=START)
        yield server
        assert server.engine().is_running(), "the engine has died during the tests"
        server.send(signal.SIGTERM)
        assert server.wait_for_end() == 0, server.text[-4000:]
        server.wait_until_all_gone(within=5)
        # Ours only: SGLang prints a traceback when its own start-up request comes too early.
        failures = re.findall(r"^(?:[\d:]+ [EC] |Traceback).*$", server.text, re.MULTILINE)
        assert failures == [], "\n".join(failures)


@pytest.fixture(scope="package")
def url(server: ServerProcess) -> str:
    """Address of the gateway."""
    return server.url


@pytest.fixture(scope="package")
def invocations(url: str) -> Iterator[Invocations]:
    """``POST /invocations``. It keeps what it got, for the test that validates everything."""
    with Invocations(url) as invocations:
        yield invocations


@pytest.fixture(scope="package")
def engine(server: ServerProcess) -> RealEngine:
    """The engine itself, to see what the gateway does to it."""
    return RealEngine(server)
