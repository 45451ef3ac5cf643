"""One engine for nearly all tests here: a worker of ``mlflow models serve`` owns it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.process.server import ServerProcess
from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import ENGINE_PYTHON, PATIENCE, Sandbox
from tests.wrapper.scoring import Scoring, serving

HERE = Path(__file__).parent
INTERFACES = ("chat-agent", "responses-agent", "chat-model")
WORKERS = 3
# Many recorded requests have no limit; this one keeps their answers short.
LIMIT = ("--config", "context_length=512")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test comes first logs the models and waits for the engine."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(2 * PATIENCE))


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    assert ENGINE_PYTHON.exists(), "run: make .venv-engine"
    with Sandbox(tmp_path_factory.mktemp("wrapper") / "empty") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def logged(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    """The built-in model by each interface, and what ``log --json`` said."""
    # The first one alone: it makes the tracking store.
    first, *others = INTERFACES
    found = {first: sandbox.log("--interface", first, *LIMIT)}
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda name: sandbox.log("--interface", name, *LIMIT), others)
        return found | dict(zip(others, results, strict=True))


@pytest.fixture(scope="session")
def scoring(sandbox: Sandbox, logged: dict[str, dict[str, Any]]) -> Iterator[Scoring]:
    """MLflow's own server with several workers, each of which has loaded the model."""
    with serving(sandbox, logged["chat-agent"]["model_uri"], workers=WORKERS) as server:
        server.wait_until_up()
        yield server


@pytest.fixture(scope="session")
def gateway(
    sandbox: Sandbox, scoring: Scoring, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The server itself, before the same engine: what the model must answer."""
    output = tmp_path_factory.mktemp("gateway") / "server.log"
    with ServerProcess(output, ENGINE_URL=sandbox.engine_url()) as server:
        server.wait_for_text("Ready: http")
        yield server.url


@pytest.fixture(scope="session")
def models(
    sandbox: Sandbox, logged: dict[str, dict[str, Any]], scoring: Scoring
) -> Iterator[dict[str, LoadedModel]]:
    """Each interface, loaded in a fresh process."""
    loading = {name: LoadedModel(sandbox, logged[name]["model_uri"]) for name in INTERFACES}
    for model in loading.values():
        model.__enter__()
    yield loading
    for model in loading.values():
        assert model.end() == 0


@pytest.fixture
def agent(models: dict[str, LoadedModel]) -> LoadedModel:
    return models["chat-agent"]
