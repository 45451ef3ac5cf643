"""One engine for nearly all tests here: a worker of ``mlflow models serve`` owns it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.process.server import ServerProcess
from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import ENGINE_PYTHON, PATIENCE, Sandbox, free_port, wait_until

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


@dataclass(frozen=True)
class Scoring:
    """``mlflow models serve`` of the ChatAgent."""

    url: str

    def invoke(self, **body: Any) -> requests.Response:
        """POST /invocations."""
        return requests.post(f"{self.url}/invocations", json=body, timeout=120)


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
    """MLflow's own server with several workers, each of which loads the model."""
    port = free_port()
    log = sandbox.folder / "scoring.log"
    with log.open("wb") as output:
        process = sandbox.start(
            *("-m", "mlflow", "models", "serve", "--env-manager", "local"),
            *("--model-uri", logged["chat-agent"]["model_uri"], "--port", str(port)),
            output=output,
            stdout=output,
            environment={
                "MLFLOW_MODELS_WORKERS": str(WORKERS),
                # Sixty by default, which long answers on a busy machine can exceed.
                "MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT": "300",
            },
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    started = "Application startup complete"
    ready = lambda: log.read_text("utf-8", "replace").count(started) >= WORKERS  # noqa: E731
    wait_until(lambda: process.poll() is not None or ready(), "scoring server")
    assert process.poll() is None, log.read_text("utf-8")[-4000:]
    yield Scoring(url)
    process.terminate()
    process.wait(60)
    wait_until(lambda: not sandbox.engines(), "end of the engine with its owner", within=30)


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
