"""MLflow's client for Databricks endpoints, with this server in place of Databricks.

Nothing but DATABRICKS_HOST and DATABRICKS_TOKEN has to be set: the client posts to
``/serving-endpoints/NAME/invocations``, which the server answers for any name.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import requests
from mlflow.deployments import BaseDeploymentClient, get_deploy_client
from mlflow.types.agent import ChatAgentChunk, ChatAgentResponse

from tests.e2e.prompts import CAPITAL, QUESTIONS, Question
from tests.e2e.tools import REQUIRED, TOOLS, WEATHER_QUESTION, WEATHER_STOP

ENDPOINT = "my-agent"

# The client leaves the connections of its streams to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDeploymentClient]:
    monkeypatch.setenv("DATABRICKS_HOST", url)
    monkeypatch.setenv("DATABRICKS_TOKEN", "none")
    client = get_deploy_client("databricks")
    assert client is not None
    yield client
    gc.collect()


def _inputs(question: Question) -> dict[str, object]:
    inputs = question.request()
    del inputs["stream"]
    return inputs


def test_predict(client: BaseDeploymentClient) -> None:
    answer = client.predict(endpoint=ENDPOINT, inputs=_inputs(CAPITAL))
    checked = ChatAgentResponse.model_validate(dict(answer))
    assert checked.messages[0].content == CAPITAL.answer
    assert checked.finish_reason == "stop"
    assert checked.usage is not None


@pytest.mark.parametrize("name", ["plain text", "Japanese and emoji", "line separator"])
def test_predict_stream(client: BaseDeploymentClient, name: str) -> None:
    question = QUESTIONS[name]
    events = list(client.predict_stream(endpoint=ENDPOINT, inputs=_inputs(question)))
    chunks = [ChatAgentChunk.model_validate(event) for event in events]
    assert "".join(chunk.delta.content or "" for chunk in chunks) == question.answer
    assert len(chunks) > 1
    assert chunks[-1].finish_reason == "stop"
    assert chunks[-1].usage is not None


@pytest.mark.parametrize("stream", [False, True])
def test_tool_call(client: BaseDeploymentClient, stream: bool) -> None:
    custom = {"temperature": 0, "max_tokens": 80, "stop": WEATHER_STOP}
    custom |= {"tools": TOOLS, "tool_choice": REQUIRED}
    inputs = {"messages": WEATHER_QUESTION, "custom_inputs": custom}
    if stream:
        events = list(client.predict_stream(endpoint=ENDPOINT, inputs=inputs))
        messages = [ChatAgentChunk.model_validate(event).delta for event in events]
    else:
        answer = client.predict(endpoint=ENDPOINT, inputs=inputs)
        messages = ChatAgentResponse.model_validate(dict(answer)).messages
    (call,) = [call for message in messages for call in message.tool_calls or []]
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city": "Paris"}')


@pytest.mark.parametrize("stream", [False, True])
def test_mistake_in_the_request(client: BaseDeploymentClient, stream: bool) -> None:
    inputs = _inputs(CAPITAL) | {"custom_inputs": {"temprature": 0}}

    def ask() -> None:
        if stream:
            next(client.predict_stream(endpoint=ENDPOINT, inputs=inputs))
        else:
            client.predict(endpoint=ENDPOINT, inputs=inputs)

    with pytest.raises(requests.HTTPError, match="temperature"):
        ask()
