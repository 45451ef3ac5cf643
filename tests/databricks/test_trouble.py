"""Changes that are refused, break off, come up without answering, or are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.databricks.conftest import MODEL, Run, facts
from tests.databricks.workspace import NO_STREAMS, READY, Step, Workspace, failed

ROOT = Path(__file__).parents[2]
BASE = ("deploy", "chat", "--model", MODEL)


def test_a_model_that_the_platform_refuses(workspace: Workspace, run: Run) -> None:
    """The text was met on Databricks in 2025, by an agent that was put on a GPU."""
    workspace.register()
    text = "Missing feedback served model. To serve an agent model, please deploy the model ..."
    workspace.refusals["create"] = (400, "INVALID_PARAMETER_VALUE", text)
    told = run(*BASE, status=1).stderr
    assert "Missing feedback served model" in told
    assert "--task llm/v1/chat" in told


def test_a_change_while_another_goes_on(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.register(number=2)
    workspace.steps = [Step()] * 5
    run(*BASE, "--version", "1", "--no-wait")
    told = run(*BASE, "--version", "2", "--no-wait", status=1).stderr
    assert "an update is in progress" in told
    assert "status NAME --wait" in told
    (entity,) = workspace.endpoints["chat"].pending.served_entities  # type: ignore[union-attr]
    assert entity.entity_version == "1"


def test_the_platform_gives_up(workspace: Workspace, run: Run) -> None:
    """Its words: https://github.com/amesar/mlflow-reports, "Pending endpoints"."""
    workspace.register()
    message = (
        "Served model creation aborted because the endpoint update timed out. "
        "Please see service logs for more information."
    )
    workspace.steps = [Step(), failed(message, deployment="DEPLOYMENT_ABORTED")]
    told = run(*BASE, status=1).output
    assert message in told
    assert "counted from the end of the build" in told


def test_what_never_served_is_no_way_back(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.register(number=2)
    workspace.steps = [failed("The container crashed")]
    run(*BASE, "--version", "1", status=1)
    assert "no way back" in run("rollback", "chat", status=2).stderr
    workspace.steps = [READY]
    run(*BASE, "--version", "2")
    assert workspace.endpoints["chat"].tags == {}


def test_an_endpoint_that_is_ready_and_does_not_answer(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.steps = [Step(service_log="RuntimeError: no kernel image is available"), READY]
    workspace.refusals["invocations"] = (400, "BAD_REQUEST", "the engine has failed")
    result = run(*BASE, "--json", status=1)
    found = facts(result)
    assert (found["ready"], found["error"]) == (True, "400 BAD_REQUEST: the engine has failed")
    assert "last lines of the service log" in result.stderr
    assert "GPU_SMALL is a T4" in result.stderr
    assert "still answers" not in result.stderr


def test_a_script_learns_that_the_time_is_up(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.steps = [Step()] * 5
    found = facts(run(*BASE, "--timeout", "0", "--json", status=1))
    assert (found["endpoint"], found["ready"]) == ("chat", None)


def test_ctrl_c_leaves_the_endpoint_alone(workspace: Workspace) -> None:
    """A real process: between two looks, which are ten seconds apart there."""
    workspace.register()
    workspace.steps = [Step(message="building")] * 3
    child = subprocess.Popen(
        [sys.executable, "-m", "model_wrapper", *BASE],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        waited_until = time.monotonic() + 60
        while not any(path.endswith("/logs") for _way, path, _body in workspace.requests):
            assert time.monotonic() < waited_until
            time.sleep(0.05)
        time.sleep(0.3)  # it prints what it saw
        child.send_signal(signal.SIGINT)
        told, _ = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, told
    assert "status chat --wait" in told
    assert "Traceback" not in told
    assert workspace.endpoints["chat"].pending is not None
    assert "DELETE" not in {way for way, _path, _body in workspace.requests}


def test_a_token_that_is_no_good_is_no_missing_grant(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "wrong")
    told = run("status", status=1).stderr
    assert "expired" in told
    assert "EXECUTE" not in told


def test_a_connection_that_times_out_is_no_container_that_did(
    workspace: Workspace, run: Run
) -> None:
    workspace.refusals["get"] = (504, "DEADLINE_EXCEEDED", "upstream timed out")
    told = run("status", "chat", status=1).stderr
    assert "timed out" in told
    assert "gave the container up" not in told


def test_logs_go_on_with_what_comes(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the workspace is away for a moment, and with the next version's log."""
    workspace.register()
    workspace.register(number=2)
    workspace.steps = [Step(service_log="one"), Step(service_log="one\ntwo"), READY]
    run(*BASE, "--version", "1", "--no-wait")
    pauses = iter(["", "away", "next version", "end"])

    def sleep(_seconds: float) -> None:
        match next(pauses):
            case "away":
                workspace.faults = [(500, "INTERNAL_ERROR", "try again")]
            case "next version":
                workspace.steps = [Step(service_log="three"), READY]
                run(*BASE, "--version", "2", "--no-wait")
            case "end":
                raise KeyboardInterrupt

    monkeypatch.setattr("model_wrapper.commands.logs.sleep", sleep)
    assert run("logs", "chat", "--service", "--follow").stdout == "one\ntwo\nthree\n"


def test_logs_of_a_workspace_that_stays_away(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.register()
    workspace.steps = [Step(service_log="one"), READY]
    run(*BASE, "--no-wait")
    gone = (500, "INTERNAL_ERROR", "try again")
    monkeypatch.setattr(
        "model_wrapper.commands.logs.sleep", lambda _: workspace.refusals.update(get=gone)
    )
    assert "try again" in run("logs", "chat", "--follow", status=1).stderr


def test_no_stream_is_no_failure_of_a_rollback(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.register(number=2)
    run(*BASE)
    workspace.refusals["stream"] = NO_STREAMS
    assert "no stream" in run("rollback", "chat").output
