"""What ``connect()`` makes of the SDK's exceptions. The SDK waits in a time of ours."""

from __future__ import annotations

import pytest
from databricks.sdk.clock import RealClock

from model_wrapper.targets.base import NoSuchEndpoint, TargetError, Unreachable
from model_wrapper.targets.databricks import DatabricksServing, connect
from tests.databricks.conftest import MODEL
from tests.databricks.workspace import Workspace


@pytest.fixture(autouse=True)
def waited(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each of the SDK's pauses, which take none."""
    pauses: list[float] = []

    def sleep(_: RealClock, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(RealClock, "time", lambda _: sum(pauses))
    monkeypatch.setattr(RealClock, "sleep", sleep)
    return pauses


# Status, code and message of an answer, and what is raised: the class and whether it is a mistake.
ERRORS = {
    "no such endpoint": (404, "RESOURCE_DOES_NOT_EXIST", NoSuchEndpoint, True),
    "not allowed": (403, "PERMISSION_DENIED", TargetError, False),
    "not signed in": (401, "UNAUTHENTICATED", TargetError, False),
    "wrong": (400, "INVALID_PARAMETER_VALUE", TargetError, False),
    "taken": (400, "RESOURCE_ALREADY_EXISTS", TargetError, False),
    "taken, the other way": (409, "RESOURCE_ALREADY_EXISTS", TargetError, False),
    "a conflict": (409, "RESOURCE_CONFLICT", TargetError, False),
    "a bug of theirs": (500, "INTERNAL_ERROR", Unreachable, False),
    "a proxy": (502, "BAD_GATEWAY", Unreachable, False),
    "a proxy that waited": (504, "DEADLINE_EXCEEDED", Unreachable, False),
}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error(
    name: str, workspace: Workspace, target: DatabricksServing, waited: list[float]
) -> None:
    status, code, kind, mistake = ERRORS[name]
    workspace.faults = [(status, code, "in their words")]
    with pytest.raises(TargetError, match=f"{code}: in their words") as caught:
        target.state("chat")
    assert type(caught.value) is kind
    assert caught.value.mistake is mistake
    assert not waited


@pytest.mark.parametrize(
    ("status", "code"), [(429, "REQUEST_LIMIT_EXCEEDED"), (503, "TEMPORARILY_UNAVAILABLE")]
)
def test_busy(
    status: int,
    code: str,
    workspace: Workspace,
    target: DatabricksServing,
    waited: list[float],
) -> None:
    workspace.faults = [(status, code, "later")] * 2
    assert list(target.states()) == []
    assert len(waited) == 2
    workspace.faults = [(status, code, "later")] * 100
    with pytest.raises(Unreachable, match="later"):
        list(target.states())
    # Not the SDK's own five minutes.
    assert 25 < sum(waited) < 40


def test_only_endpoints_are_no_such_endpoint(
    workspace: Workspace, target: DatabricksServing
) -> None:
    with pytest.raises(TargetError, match=r"'main\.chat\.qwen' does not exist") as caught:
        target.versions(MODEL)
    assert type(caught.value) is TargetError
    assert caught.value.mistake


def test_a_wrong_token(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "another")
    with pytest.raises(TargetError, match="Invalid access token"):
        connect().state("chat")


def test_no_workspace_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_HOST")
    with pytest.raises(TargetError, match="Set DATABRICKS_HOST and DATABRICKS_TOKEN") as caught:
        connect()
    assert caught.value.mistake


def test_nobody_there(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="can't be reached"):
        connect().state("chat")


def test_a_call_that_no_source_has_is_refused(
    workspace: Workspace, target: DatabricksServing
) -> None:
    """So that a wrong path is no 404, which would read as "there is none"."""
    with pytest.raises(TargetError, match="no source has GET"):
        target.state("chat/typo")
