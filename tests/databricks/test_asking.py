"""What an endpoint may answer that is no answer, and one that is busy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.databricks.conftest import MODEL, Run
from tests.databricks.workspace import CUT, NO_STREAMS, Workspace

ASK = ("query", "chat", "Three colours?")
BUSY = (429, "REQUEST_LIMIT_EXCEEDED", "Exceeded max number of parallel requests.")
AWAY = (503, "TEMPORARILY_UNAVAILABLE", "The service is scaling up.")
PIECE = {"delta": {"role": "assistant", "content": "Red, ", "id": "1"}}


def event(found: object) -> str:
    return f"data: {json.dumps(found)}\n\n"


STREAMS = {
    "cut off": ([event(PIECE), CUT], "Response ended prematurely"),
    "without an end mark": ([event(PIECE)], "before its end mark"),
    "an error in the middle": ([event(PIECE), event({"error": "engine lost"})], "engine lost"),
    "no JSON": ([event(PIECE), "data: {oops\n\n"], "no JSON object: {oops"),
    "no object": ([event(PIECE), event([1])], "no JSON object: [1]"),
    "of another schema": ([event(PIECE), event({"choices": []})], "not one of a chat-agent"),
}


@pytest.fixture(autouse=True)
def served(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "chat", "--model", MODEL)
    workspace.requests.clear()


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_is_told_in_words(name: str, workspace: Workspace, run: Run) -> None:
    workspace.stream, words = STREAMS[name]
    result = run(*ASK, "--stream", status=1)
    assert result.stdout.startswith("Red, ")
    assert words in result.stderr


def test_an_endpoint_that_ignores_the_wish_for_a_stream(workspace: Workspace, run: Run) -> None:
    """As ``mlflow models serve`` does."""
    workspace.stream_type = "application/json"
    result = run(*ASK, "--stream", status=1)
    assert "answered in one piece (application/json)" in result.stderr


@pytest.mark.parametrize("answer", [["no object"], {"predictions": []}])
def test_a_plain_answer_of_another_form(answer: object, workspace: Workspace, run: Run) -> None:
    workspace.answer = answer
    assert str(answer).strip("[]{}")[1:10] in run(*ASK, status=1).stderr


def asked(workspace: Workspace) -> int:
    return sum(path.endswith("invocations") for _method, path, _body in workspace.requests)


def test_a_busy_endpoint_is_asked_again(workspace: Workspace, run: Run) -> None:
    interface = ("--interface", "chat-agent")  # so that nothing else is asked first
    workspace.faults = [BUSY, AWAY]
    assert run(*ASK, *interface).stdout == "Red, green, blue.\n"
    assert asked(workspace) == 3
    workspace.faults = [BUSY]
    assert run(*ASK, *interface, "--stream").stdout == "Red, green, blue.\n"


def test_but_not_for_ever(workspace: Workspace, run: Run) -> None:
    workspace.refusals["invocations"] = BUSY
    told = run(*ASK, status=1).stderr
    assert "429 REQUEST_LIMIT_EXCEEDED: Exceeded max number of parallel requests" in told
    assert "deploy with a larger --size" in told
    assert asked(workspace) == 4


def test_a_request_that_is_no_good_is_sent_once(workspace: Workspace, run: Run) -> None:
    workspace.refusals["stream"] = NO_STREAMS
    run(*ASK, "--stream", status=1)
    assert asked(workspace) == 1


def test_the_sdk_asks_a_busy_workspace_again(workspace: Workspace, run: Run) -> None:
    workspace.faults = [BUSY, AWAY]
    run("status", "chat")
    assert [path for _method, path, _body in workspace.requests] == [
        "/api/2.0/serving-endpoints/chat"
    ] * 3


def test_an_agent_is_asked_without_reading_its_model(workspace: Workspace, run: Run) -> None:
    """Asking takes fewer rights than reading the model, and fewer requests."""
    run(*ASK)
    assert [path for _method, path, _body in workspace.requests] == [
        "/api/2.0/serving-endpoints/chat",
        "/serving-endpoints/chat/invocations",
    ]


def test_an_endpoint_that_sleeps(workspace: Workspace, run: Run) -> None:
    workspace.endpoints["chat"].message = "Scaled to zero"
    result = run(*ASK)
    assert result.stdout == "Red, green, blue.\n"
    assert "waits until it has started" in result.stderr
    assert "Scaled to zero" in run("status", "chat").output


def test_no_such_interface(run: Run) -> None:
    assert "chat-model, openai" in run(*ASK, "--interface", "telnet", status=2).stderr


def test_a_gateway_in_place_of_databricks(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Databricks nothing is needed then, and it gets no token of a workspace."""
    url = ("--url", os.environ["DATABRICKS_HOST"])
    monkeypatch.delenv("DATABRICKS_HOST")
    assert "PERMISSION_DENIED" in run(*ASK, *url, status=1).stderr
    monkeypatch.setenv("API_KEY", workspace.token)
    assert run(*ASK, *url).stdout == "Red, green, blue.\n"
    assert run(*ASK, *url, "--stream").stdout == "Red, green, blue.\n"
    assert {path for _method, path, _body in workspace.requests} == {
        "/serving-endpoints/chat/invocations"
    }


def test_a_login_in_netrc_does_not_replace_the_token(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    run(*ASK)
    run(*ASK, "--stream")


def test_nobody_at_the_gateways_address(run: Run) -> None:
    assert "ConnectionError" in run(*ASK, "--url", "http://127.0.0.1:9", status=1).stderr
    assert "Invalid URL" in run(*ASK, "--url", "somewhere", status=1).stderr
