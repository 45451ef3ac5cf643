"""MLflow's own client of Databricks' endpoints reads what our models answer."""

from __future__ import annotations

import gc
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.deployments import get_deploy_client

from tests.databricks.answers import WORDS
from tests.databricks.conftest import MODEL, Run
from tests.databricks.workspace import Workspace

GUIDE = (Path(__file__).parents[2] / "docs" / "databricks.md").read_text("utf-8")
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "Three colours?"}]}


# The client leaves the connections of its streams to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def client(workspace: Workspace, run: Run) -> Iterator[Any]:
    workspace.register()
    run("deploy", "chat", "--model", MODEL)
    yield get_deploy_client("databricks")
    gc.collect()


def test_predict(client: Any) -> None:
    answer = client.predict(endpoint="chat", inputs=QUESTION)
    assert answer["messages"][0]["content"] == "".join(WORDS)


def test_predict_stream(client: Any) -> None:
    chunks = client.predict_stream(endpoint="chat", inputs=QUESTION)
    assert [chunk["delta"]["content"] for chunk in chunks] == WORDS


def test_it_sees_the_endpoint(client: Any) -> None:
    assert client.get_endpoint("chat")["state"]["ready"] == "READY"
    assert [endpoint["name"] for endpoint in client.list_endpoints()] == ["chat"]


def test_the_lines_of_the_guide(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/databricks.md, its block of Python."""
    start = GUIDE.index("    from mlflow.deployments import")
    lines = GUIDE[start:].splitlines()
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), lines)
    exec(textwrap.dedent("\n".join(block)), {})
    answer = "".join(WORDS)
    assert capsys.readouterr().out == f"{answer}\n{answer}"
