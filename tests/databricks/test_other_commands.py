"""``status``, ``logs``, ``query`` and ``delete``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databricks.answers import WORDS
from tests.databricks.conftest import MODEL, Run, facts
from tests.databricks.workspace import NO_STREAMS, Step, Workspace, failed

ROOT = Path(__file__).parents[2]
TASKS = {
    "chat-agent": "agent/v2/chat",
    "responses-agent": "agent/v1/responses",
    "chat-model": "llm/v1/chat",
}


@pytest.fixture(params=TASKS)
def interface(request: pytest.FixtureRequest, workspace: Workspace, run: Run) -> str:
    """An endpoint ``chat`` that serves a model of this interface."""
    name = str(request.param)
    workspace.register(task=TASKS[name], config={"interface": name})
    run("deploy", "chat", "--model", MODEL)
    workspace.requests.clear()
    return name


def test_query(interface: str, run: Run) -> None:
    assert run("query", "chat", "Three colours?").stdout == "".join(WORDS) + "\n"


def test_query_with_everything(interface: str, workspace: Workspace, run: Run) -> None:
    options = ("--system", "Be brief.", "--max-tokens", "9", "--temperature", "0")
    run("query", "chat", "Three colours?", *options)
    body = workspace.requests[-1][2]
    messages = body["input" if interface == "responses-agent" else "messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    given = body["custom_inputs"] if interface == "chat-agent" else body
    limit = "max_output_tokens" if interface == "responses-agent" else "max_tokens"
    assert (given[limit], given["temperature"]) == (9, 0)


def test_query_streams(interface: str, run: Run) -> None:
    assert run("query", "chat", "Three colours?", "--stream").stdout == "".join(WORDS) + "\n"
    lines = run("query", "chat", "Three colours?", "--stream", "--json").stdout.splitlines()
    assert len(lines) >= len(WORDS)


def test_query_asks_the_task_when_the_model_can_not_be_read(
    interface: str, workspace: Workspace, run: Run
) -> None:
    version = workspace.versions[0]
    version.files = {"MLmodel": version.files["MLmodel"]}  # nothing else: reading it fails
    assert run("query", "chat", "Three colours?").stdout == "".join(WORDS) + "\n"


def test_a_model_with_an_entrypoint_speaks_openai(workspace: Workspace, run: Run) -> None:
    workspace.register(
        task="llm/v1/chat",
        metadata={"entrypoint": "python -u server"},
        databricks_runtime="17.1",
    )
    assert "warning" not in run("deploy", "chat", "--model", MODEL).output
    assert run("query", "chat", "Three colours?", "--stream").stdout == "".join(WORDS) + "\n"


def test_a_refusal_is_shown_with_what_it_means(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "chat", "--model", MODEL)
    workspace.refusals["stream"] = NO_STREAMS
    told = run("query", "chat", "Three colours?", "--stream", status=1).output
    assert "This endpoint does not support streaming" in told
    assert "Ask without --stream" in told


@pytest.mark.parametrize(
    "command",
    [("status", "none"), ("logs", "none"), ("query", "none", "x"), ("rollback", "none"),
     ("delete", "none", "--yes")],
)  # fmt: skip
def test_no_such_endpoint(command: tuple[str, ...], run: Run) -> None:
    assert "does not exist" in run(*command, status=2).output


def test_status(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.register(number=2)
    run("deploy", "chat", "--model", MODEL, "--version", "1", "--env", "TOKEN={{secrets/a/b}}")
    result = run("status", "chat", "--json")
    assert facts(result)["active"] == [f"{MODEL}/1"]
    assert "variables: TOKEN" in result.stderr
    assert "secrets/a/b" not in result.stderr
    workspace.steps = [Step(message="building"), Step(message="building"), Step()]
    run("deploy", "chat", "--model", MODEL, "--no-wait")
    result = run("status", "chat", "--json", status=1)
    found = facts(result)
    assert (found["phase"], found["answering"]) == ("updating", True)
    assert found["pending"] == [f"{MODEL}/2"]
    assert [entry["endpoint"] for entry in facts(run("status", "--json"))["endpoints"]] == ["chat"]


def test_status_of_a_failure(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.steps = [failed("crashed", service_log="No module named 'sglang'")]
    run("deploy", "chat", "--model", MODEL, "--no-wait")
    told = run("status", "chat", status=1).output
    assert "No module named 'sglang'" in told
    assert "likely cause" in told


def test_logs(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.steps = [Step(build_log="b1\nb2", service_log="s1")]
    run("deploy", "chat", "--model", MODEL, "--no-wait")
    assert run("logs", "chat").stdout == "s1\n"
    assert run("logs", "chat", "--build").stdout == "b1\nb2\n"


def test_logs_that_are_not_there_yet(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "chat", "--model", MODEL, "--no-wait")
    assert "(yet)" in run("logs", "chat", status=1).output


def test_delete(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "chat", "--model", MODEL)
    assert "--yes" in run("delete", "chat", status=2).output
    assert "chat" in workspace.endpoints
    run("delete", "chat", "--yes")
    assert not workspace.endpoints


def test_delete_asks_who_sits_at_a_terminal(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "chat", "--model", MODEL)
    for answer, status, left in (("n", 1, {"chat"}), ("y", 0, set())):
        ours, theirs = os.openpty()
        try:
            os.write(ours, f"{answer}\n".encode())
            done = subprocess.run(
                [sys.executable, "-m", "model_wrapper", "delete", "chat"],
                cwd=ROOT, stdin=theirs, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        finally:
            os.close(ours)
            os.close(theirs)
        assert f"which serves {MODEL} version 1" in done.stdout
        assert (done.returncode, set(workspace.endpoints)) == (status, left), done.stderr


def test_nobody_there(workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr("model_wrapper.targets.databricks._RETRY_SECONDS", 1)
    assert "can't be reached" in run("status", status=1).output


def test_as_a_program(workspace: Workspace) -> None:
    """With the real interpreter: nothing but the answer on standard output."""
    workspace.register()
    program = [sys.executable, "-m", "model_wrapper"]
    options = {"cwd": ROOT, "env": dict(os.environ), "capture_output": True, "text": True}
    done = subprocess.run([*program, "deploy", "chat", "--model", MODEL, "--no-wait"], **options)
    assert done.returncode == 0, done.stderr
    workspace.endpoints["chat"].go_on()
    done = subprocess.run([*program, "query", "chat", "Colours?"], **options)
    assert (done.returncode, done.stdout) == (0, "".join(WORDS) + "\n"), done.stderr
