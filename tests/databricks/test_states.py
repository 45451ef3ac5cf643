"""Endpoints over time: what ``connect()`` makes of each state, and of the logs."""

from __future__ import annotations

import pytest

from model_wrapper.targets.base import Deployment, LogKind, Phase, State
from model_wrapper.targets.databricks import DatabricksServing
from tests.databricks.conftest import MODEL
from tests.databricks.workspace import (
    CANCELED,
    READY,
    RECOVERING,
    Step,
    Workspace,
    failed,
)

FIRST = Deployment("chat", MODEL, "1", "CPU", "Small", True, {"A": "1"})
SECOND = Deployment("chat", MODEL, "2", "CPU", "Small", True)
GOES_ON = (Phase.UPDATING, False)

# The steps of a new endpoint, and phase and ``answering`` at each look at it.
NEW = {
    "ready in the end": (
        [Step(), Step(message="loading"), READY],
        [GOES_ON, GOES_ON, (Phase.READY, True)],
    ),
    "the image can't be built": (
        [Step(), failed("Container image build failed")],
        [GOES_ON, (Phase.FAILED, False)],
    ),
    "never ready": ([Step()], [GOES_ON] * 4),
    "canceled": ([Step(), CANCELED], [GOES_ON, (Phase.FAILED, False)]),
    "down for a while": (
        [READY, RECOVERING, READY],
        [(Phase.READY, True), (Phase.NOT_READY, False), (Phase.READY, True)],
    ),
}


@pytest.fixture(autouse=True)
def _registered(workspace: Workspace) -> None:
    workspace.register()
    workspace.register(number=2)


def seen(state: State) -> tuple[Phase, bool]:
    return state.phase, state.answering


@pytest.mark.parametrize("name", NEW)
def test_a_new_endpoint(name: str, workspace: Workspace, target: DatabricksServing) -> None:
    steps, expected = NEW[name]
    workspace.script("chat", *steps)
    target.create(FIRST)
    assert [seen(target.state("chat")) for _ in expected] == expected


# The end of a change of an endpoint that is ready: phase, what it serves, what it was to serve.
CHANGES = {
    "through": ([Step(), READY], Phase.READY, "2", None),
    "failed": ([Step(), failed("The container crashed")], Phase.FAILED, "1", "2"),
    "canceled": ([Step(), CANCELED], Phase.FAILED, "1", "2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change(name: str, workspace: Workspace, target: DatabricksServing) -> None:
    steps, phase, active, pending = CHANGES[name]
    workspace.script("chat", READY)
    target.create(FIRST)
    workspace.script("chat", *steps)
    target.update(SECOND)
    before = target.state("chat")
    assert seen(before) == (Phase.UPDATING, True)
    assert (before.active[0].version, before.pending[0].version) == ("1", "2")
    after = target.state("chat")
    # What was served goes on answering, come what may.
    assert seen(after) == (phase, True)
    assert after.active[0].version == active
    assert [each.version for each in after.pending] == ([pending] if pending else [])
    assert after.newest is not None
    assert after.newest.version == "2"


def test_what_is_told_of_a_served_model(workspace: Workspace, target: DatabricksServing) -> None:
    workspace.script("chat", READY)
    target.create(FIRST)
    workspace.endpoints["chat"].message = "Scaled to zero"
    state = target.state("chat")
    # Asleep, but a request wakes it.
    assert seen(state) == (Phase.READY, True)
    (served,) = state.active
    assert (served.name, served.model, served.version) == ("qwen-1", MODEL, "1")
    assert (served.workload, served.size, served.scale_to_zero) == ("CPU", "Small", True)
    assert served.environment == {"A": "1"}
    assert (served.deployment, served.message) == ("DEPLOYMENT_READY", "Scaled to zero")
    assert state.task == "agent/v2/chat"
    assert state.url.endswith("/serving-endpoints/chat/invocations")


def test_the_message_of_a_failure(workspace: Workspace, target: DatabricksServing) -> None:
    workspace.script("chat", failed("Failed to deploy: the container crashed"))
    target.create(FIRST)
    newest = target.state("chat").newest
    assert newest is not None
    assert (newest.deployment, newest.message) == (
        "DEPLOYMENT_FAILED",
        "Failed to deploy: the container crashed",
    )


@pytest.mark.parametrize("kind", ["build", "service"])
def test_logs_come_with_time(
    kind: LogKind, workspace: Workspace, target: DatabricksServing
) -> None:
    text = "CUDA out of memory\nend"
    workspace.script("chat", Step(), failed("crashed", **{f"{kind}_log": text}))
    target.create(FIRST)
    assert target.log("chat", "qwen-1", kind) == ""
    target.state("chat")
    assert target.log("chat", "qwen-1", kind) == text
    other: LogKind = "service" if kind == "build" else "build"
    assert target.log("chat", "qwen-1", other) == ""
    assert target.log("chat", "qwen-2", kind) == ""


def test_all_endpoints(workspace: Workspace, target: DatabricksServing) -> None:
    assert list(target.states()) == []
    workspace.script("a", READY)
    workspace.script("b", failed("no"))
    for name in "abc":
        target.create(Deployment(**{**vars(FIRST), "endpoint": name}))
    assert {each.endpoint: each.phase for each in target.states()} == {
        "a": Phase.READY,
        "b": Phase.FAILED,
        "c": Phase.UPDATING,
    }
    (ready,) = (each for each in target.states() if each.active)
    assert (ready.active[0].model, ready.active[0].version) == (MODEL, "1")
    assert ready.task == "agent/v2/chat"
