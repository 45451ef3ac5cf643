"""A real tracking server with a registry: registered, found by its alias, served with streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.process.server import ServerProcess
from tests.unit.model_folders import WHOLE, write
from tests.wrapper.sandbox import Sandbox, free_port, wait_until
from tests.wrapper.scoring import Scoring
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES, joined, without_ids

ALIAS = "models:/chat@champion"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("registry") / "empty") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def tracking(own: Sandbox) -> str:
    """``mlflow server`` on SQLite. The sandbox ends it."""
    port = free_port()
    log = own.folder / "server.log"
    store = own.folder / "store"
    with log.open("wb") as output:
        process = own.start(
            *("-m", "mlflow", "server", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{own.folder}/server.db"),
            *("--artifacts-destination", str(store)),
            output=output,
            stdout=output,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text("utf-8")[-3000:]
        try:
            return requests.get(f"{url}/health", timeout=5).ok
        except requests.ConnectionError:
            return False

    wait_until(answers, "tracking server")
    return url


@pytest.fixture(scope="module")
def registered(own: Sandbox, tracking: str) -> dict[str, Any]:
    return own.log("--tracking-uri", tracking, "--register", "chat", "--alias", "champion")


def test_registered_under_an_alias(own: Sandbox, tracking: str, registered: dict[str, Any]) -> None:
    assert registered["version"] == "1"
    assert registered["next"].startswith("python -m model_wrapper validate models:/chat/1")
    found = own.wrapper("resolve", ALIAS, "--tracking-uri", tracking, "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {
        "settings": {
            "engine_device": "cpu",
            "model": "smollm2-135m-instruct",
            "request_timeout": 290,  # as long as Databricks waits
        },
        "interface": "chat-agent",
    }


def test_the_gateway_serves_it_with_streaming(
    tracking: str,
    registered: dict[str, Any],
    sandbox: Sandbox,
    scoring: Scoring,
    tmp_path: Path,
) -> None:
    request = {"messages": MESSAGES, "custom_inputs": GREEDY}
    plain = scoring.invoke(**request).json()
    settings = {"ENGINE_URL": sandbox.engine_url(), "MLFLOW_TRACKING_URI": tracking}
    output = tmp_path / "server.log"
    with ServerProcess(output, "--mlflow-model", ALIAS, **settings) as server:
        server.wait_for_text("Ready: http")
        answer = requests.post(
            f"{server.url}/invocations", json={**request, "stream": True}, timeout=60
        )
    lines = [line for line in answer.text.split("\n") if line]
    assert lines.pop() == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert joined(chunks) == plain["messages"][0]["content"]
    assert without_ids(chunks[-1]["usage"]) == without_ids(plain["usage"])


def test_weights_are_fetched_once(own: Sandbox, tracking: str, tmp_path: Path) -> None:
    weights = write(tmp_path / "weights", WHOLE)
    logged = own.log("--tracking-uri", tracking, "--model", str(weights), "--engine", "cpu")
    cache = {"MODEL_CACHE": str(tmp_path / "cache" / "models")}

    def resolve() -> Path:
        done = own.wrapper("resolve", logged["model_uri"], "--json", MLFLOW_TRACKING_URI=tracking,
                           **cache)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return Path(json.loads(done.stdout)["settings"]["model"])

    first = resolve()
    assert first.is_relative_to(tmp_path / "cache" / "mlflow")
    for file in weights.iterdir():
        assert (first / file.name).read_bytes() == file.read_bytes()
    mark = first / "mark"
    mark.touch()
    assert resolve() == first
    assert mark.exists()


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("models:/nobody/1", "nobody"),
        ("models:/chat@nobody", "nobody"),
        ("/no/such/folder", "/no/such/folder"),
        (".", "MLmodel"),
    ],
)
def test_a_model_that_is_not_there(uri: str, named: str, tracking: str, tmp_path: Path) -> None:
    output = tmp_path / "server.log"
    settings = {"MLFLOW_TRACKING_URI": tracking}
    with ServerProcess(output, "--mlflow-model", uri, **settings) as server:
        assert server.wait_for_end() == 2
        assert named in server.text
        assert "Traceback" not in server.text


def test_a_model_of_somebody_else(own: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    code = (
        "import mlflow, sys\n"
        "class Model(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input, params=None):\n"
        "        return model_input\n"
        "mlflow.pyfunc.save_model(sys.argv[1], python_model=Model(), pip_requirements=['mlflow'])\n"
    )
    assert own.start("-c", code, str(folder)).wait(60) == 0
    done = own.wrapper("resolve", str(folder))
    assert done.returncode == 2
    assert "was not logged by" in done.stderr
