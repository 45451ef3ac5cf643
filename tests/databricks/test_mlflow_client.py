"""MLflow's own client of Databricks' endpoints reads what our models answer."""

from __future__ import annotations

import gc
import itertools
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.deployments import get_deploy_client
from mlflow.types.agent import ChatAgentChunk, ChatAgentResponse
from mlflow.types.chat import ChatCompletionChunk, ChatCompletionResponse
from requests import HTTPError

from model_wrapper.targets.asking import piece_of, question, text_of
from model_wrapper.targets.base import Deployment
from model_wrapper.targets.databricks import DatabricksServing
from tests.databricks.answers import WORDS
from tests.databricks.workspace import READY, Workspace

with warnings.catch_warnings():
    # It warns of its own type hints.
    warnings.simplefilter("ignore")
    from mlflow.types.responses import ResponsesAgentResponse, ResponsesAgentStreamEvent

GUIDE = (Path(__file__).parents[2] / "docs" / "databricks.md").read_text("utf-8")
TASKS = {
    "chat-agent": "agent/v2/chat",
    "responses-agent": "agent/v1/responses",
    "openai": "llm/v1/chat",
}
# MLflow's own classes of what each of them answers.
WHOLE = {
    "chat-agent": ChatAgentResponse,
    "responses-agent": ResponsesAgentResponse,
    "openai": ChatCompletionResponse,
}
PIECE = {
    "chat-agent": ChatAgentChunk,
    "responses-agent": ResponsesAgentStreamEvent,
    "openai": ChatCompletionChunk,
}
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "Three colours?"}]}


# The client leaves the connections of its streams to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def client(
    workspace: Workspace, target: DatabricksServing, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    for interface, task in TASKS.items():
        workspace.register(f"main.chat.{interface}", task=task)
        workspace.script(interface, READY)
        target.create(Deployment(interface, f"main.chat.{interface}", "1", "CPU", "Small", True))
    workspace.requests.clear()
    yield get_deploy_client("databricks")
    gc.collect()


@pytest.mark.parametrize("interface", TASKS)
def test_predict(interface: str, client: Any) -> None:
    answer = client.predict(endpoint=interface, inputs=question(interface, "Three colours?"))
    assert text_of(interface, answer) == "".join(WORDS)
    WHOLE[interface].model_validate(answer)


@pytest.mark.parametrize("interface", TASKS)
def test_predict_stream(interface: str, client: Any) -> None:
    asked = question(interface, "Three colours?")
    events = list(client.predict_stream(endpoint=interface, inputs=asked))
    assert [piece for event in events if (piece := piece_of(interface, event))] == WORDS
    for event in events:
        PIECE[interface].model_validate(event)


def test_it_sees_the_endpoints(client: Any) -> None:
    assert client.get_endpoint("openai")["state"]["ready"] == "READY"
    assert [endpoint["name"] for endpoint in client.list_endpoints()] == list(TASKS)


@pytest.mark.parametrize("busy", [429, 503])
def test_it_asks_a_busy_endpoint_again(busy: int, workspace: Workspace, client: Any) -> None:
    workspace.faults = [(busy, "BUSY", "later")]
    assert client.predict(endpoint="chat-agent", inputs=QUESTION)["messages"]
    workspace.faults = [(busy, "BUSY", "later")]
    assert list(client.predict_stream(endpoint="chat-agent", inputs=QUESTION))
    assert len(workspace.requests) == 4


def test_it_tells_the_words_of_a_refusal(client: Any) -> None:
    wrong = {**QUESTION, "temperature": 0}
    with pytest.raises(HTTPError, match=r"400 .*not defined in the schema.*temperature"):
        client.predict(endpoint="chat-agent", inputs=wrong)
    with pytest.raises(HTTPError, match=r"404 .*does not exist"):
        list(client.predict_stream(endpoint="none", inputs=QUESTION))


def test_an_error_inside_a_stream_is_an_event(workspace: Workspace, client: Any) -> None:
    """So those who use it must look for one, as ``query --stream`` does."""
    workspace.stream = ['data: {"error": "lost"}\n\n', "data: [DONE]\n\n", "data: {}\n\n"]
    events = list(client.predict_stream(endpoint="chat-agent", inputs=QUESTION))
    assert events == [{"error": "lost"}]


def test_the_lines_of_the_guide(
    workspace: Workspace, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/databricks.md, its block of Python."""
    workspace.endpoints["chat"] = workspace.endpoints["chat-agent"]
    start = GUIDE.index("    from mlflow.deployments import")
    lines = GUIDE[start:].splitlines()
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), lines)
    exec(textwrap.dedent("\n".join(block)), {})
    answer = "".join(WORDS)
    assert capsys.readouterr().out == f"{answer}\n{answer}"
