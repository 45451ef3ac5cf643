"""Questions that ``connect()`` puts to an endpoint, and broken answers to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from model_wrapper.targets.asking import piece_of, question, text_of
from model_wrapper.targets.base import Deployment, TargetError, Unreachable
from model_wrapper.targets.databricks import DatabricksServing
from tests.databricks.answers import WORDS
from tests.databricks.conftest import MODEL
from tests.databricks.workspace import CUT, READY, Workspace

TASKS = {
    "chat-agent": "agent/v2/chat",
    "responses-agent": "agent/v1/responses",
    "openai": "llm/v1/chat",
}
BUSY = (429, "REQUEST_LIMIT_EXCEEDED", "Exceeded max number of parallel requests.")
AWAY = (503, "TEMPORARILY_UNAVAILABLE", "The endpoint starts.")


@pytest.fixture
def serve(workspace: Workspace, target: DatabricksServing) -> Callable[[str], None]:
    """Put a model of this interface behind the endpoint ``chat``."""

    def serve(interface: str) -> None:
        workspace.register(task=TASKS[interface])
        workspace.script("chat", READY)
        target.create(Deployment("chat", MODEL, "1", "CPU", "Small", True))
        workspace.requests.clear()

    return serve


@pytest.mark.parametrize("interface", TASKS)
def test_each_schema(
    interface: str,
    workspace: Workspace,
    target: DatabricksServing,
    serve: Callable[[str], None],
) -> None:
    serve(interface)
    body = question(interface, "Three colours?", max_tokens=9, temperature=0.5)
    assert text_of(interface, target.invoke("chat", body)) == "".join(WORDS)
    pieces = [piece_of(interface, event) for event in target.stream("chat", body)]
    assert [piece for piece in pieces if piece] == WORDS
    path = "/serving-endpoints/chat/invocations"
    assert workspace.requests == [("POST", path, body), ("POST", path, {**body, "stream": True})]


def whole(target: DatabricksServing) -> Any:
    return target.invoke("chat", question("chat-agent", "hi"))


def streamed(target: DatabricksServing) -> Any:
    return list(target.stream("chat", question("chat-agent", "hi")))


WAYS = pytest.mark.parametrize("ask", [whole, streamed])


@WAYS
@pytest.mark.parametrize("busy", [BUSY, AWAY])
def test_busy_once(
    ask: Callable[[DatabricksServing], Any],
    busy: tuple[int, str, str],
    workspace: Workspace,
    target: DatabricksServing,
    serve: Callable[[str], None],
) -> None:
    serve("chat-agent")
    workspace.faults = [busy]
    assert ask(target)
    assert len(workspace.requests) == 2


@WAYS
def test_busy_for_good(
    ask: Callable[[DatabricksServing], Any],
    workspace: Workspace,
    target: DatabricksServing,
    serve: Callable[[str], None],
) -> None:
    serve("chat-agent")
    workspace.faults = [BUSY] * 100
    with pytest.raises(TargetError, match=r"429 .*Exceeded max number of parallel requests"):
        ask(target)
    assert 1 < len(workspace.requests) < 10


@WAYS
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((400, "INVALID_PARAMETER_VALUE", "Model is missing inputs"), "missing inputs"),
        ((403, "PERMISSION_DENIED", "No CAN_QUERY"), "PERMISSION_DENIED.* No CAN_QUERY"),
        ((500, "INTERNAL_ERROR", "The model raised"), "500 .*The model raised"),
    ],
)
def test_a_refusal_is_not_repeated(
    ask: Callable[[DatabricksServing], Any],
    fault: tuple[int, str, str],
    words: str,
    workspace: Workspace,
    target: DatabricksServing,
    serve: Callable[[str], None],
) -> None:
    serve("chat-agent")
    workspace.faults = [fault]
    with pytest.raises(TargetError, match=words):
        ask(target)
    assert len(workspace.requests) == 1


@pytest.mark.parametrize(
    ("pieces", "events", "words"),
    [
        (['data: {"delta": {"content": "a"}}\n\n'], 1, "before its end mark"),
        (["data: {\n\n"], 0, "no JSON object"),
        (["data: [1]\n\n"], 0, "no JSON object"),
        (["data: {}\n\n", CUT], 1, "ProtocolError|ChunkedEncodingError"),
    ],
)
def test_what_came_before_the_break_is_told(
    pieces: list[str],
    events: int,
    words: str,
    workspace: Workspace,
    target: DatabricksServing,
    serve: Callable[[str], None],
) -> None:
    serve("chat-agent")
    workspace.stream = pieces
    stream = target.stream("chat", question("chat-agent", "hi"))
    for _ in range(events):
        next(stream)
    with pytest.raises(TargetError, match=words):
        next(stream)


@WAYS
def test_nobody_to_ask(ask: Callable[[DatabricksServing], Any], target: DatabricksServing) -> None:
    with pytest.raises(TargetError, match="'chat' does not exist"):
        ask(target)


@WAYS
def test_nobody_answers(ask: Callable[[DatabricksServing], Any], target: DatabricksServing) -> None:
    target._client.config.host = "http://127.0.0.1:9"
    with pytest.raises(Unreachable):
        ask(target)
