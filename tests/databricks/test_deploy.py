"""``deploy``, ``rollback`` and what they send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.databricks.answers import WORDS
from tests.databricks.conftest import MODEL, Run, facts
from tests.databricks.workspace import NO_STREAMS, READY, Step, Workspace, failed

BASE = ("deploy", "chat", "--model", MODEL)


def sent(workspace: Workspace, method: str, ending: str) -> list[Any]:
    return [
        body
        for way, path, body in workspace.requests
        if way == method and path.endswith(ending) and "invocations" not in path
    ]


def test_a_new_endpoint(workspace: Workspace, run: Run) -> None:
    workspace.register(weights=15 * 10**9)
    workspace.steps = [
        Step(message="building", build_log="Step 1\nStep 2"),
        Step(message="loading", build_log="Step 1\nStep 2\nStep 3", service_log="loading weights"),
        READY,
    ]
    result = run(
        *(*BASE, "--scale-to-zero", "--env", "HF_TOKEN={{secrets/llm/hf}}"),
        *("--env", "LOG_LEVEL=debug", "--inference-table", "main.logs.chat"),
        *("--rate-limit", "100", "--rate-limit", "10/user", "--json"),
    )
    (create,) = sent(workspace, "POST", "/serving-endpoints")
    assert create["config"]["served_entities"] == [
        {
            "name": "qwen-1",
            "entity_name": MODEL,
            "entity_version": "1",
            "workload_type": "GPU_MEDIUM",
            "workload_size": "Small",
            "scale_to_zero_enabled": True,
            "environment_vars": {"HF_TOKEN": "{{secrets/llm/hf}}", "LOG_LEVEL": "debug"},
        }
    ]
    assert create["ai_gateway"]["inference_table_config"]["table_name_prefix"] == "chat"
    assert [limit["calls"] for limit in create["ai_gateway"]["rate_limits"]] == [100, 10]
    found = facts(result)
    assert (found["ready"], found["version"], found["workload"]) == (True, "1", "GPU_MEDIUM")
    assert found["smoke"]["plain"] == "".join(WORDS)
    assert found["smoke"]["pieces"] == len(WORDS)
    # Every line of the logs once, in their order.
    for line in ("build | Step 1", "build | Step 3", "service | loading weights"):
        assert result.stderr.count(line) == 1
    assert "14.0 GiB weights" in result.stderr
    assert "updating: DEPLOYMENT_CREATING: building" in result.stderr


def test_a_change_keeps_what_was_not_named(workspace: Workspace, run: Run) -> None:
    workspace.register(weights=10**9)
    workspace.register(number=2, aliases=("champion",), weights=10**9)
    run(*BASE, "--version", "1", "--size", "Medium", "--env", "A=1", "--env", "B=1")
    run(*BASE, "--alias", "champion", "--env", "B=2")
    (change,) = sent(workspace, "PUT", "/config")
    (entity,) = change["served_entities"]
    assert entity["entity_version"] == "2"
    assert entity["workload_size"] == "Medium"
    assert entity["environment_vars"] == {"A": "1", "B": "2"}
    assert workspace.endpoints["chat"].tags == {"previous_version": "1"}


def test_the_newest_ready_version_is_the_default(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.register(number=2)
    workspace.register(number=3, status="PENDING_REGISTRATION")
    assert facts(run(*BASE, "--json"))["version"] == "2"


def test_without_waiting(workspace: Workspace, run: Run) -> None:
    workspace.register()
    result = run(*BASE, "--no-wait", "--json")
    assert facts(result)["ready"] is None
    assert "status chat --wait" in result.stderr
    assert workspace.endpoints["chat"].active is None


def test_a_build_that_fails(workspace: Workspace, run: Run) -> None:
    workspace.register()
    log = "\n".join([f"line {number}" for number in range(50)] + ["No matching distribution found"])
    workspace.steps = [Step(), failed("Container image build failed", build_log=log)]
    result = run(*BASE, "--json", status=1)
    assert facts(result)["ready"] is False
    _, _, told = result.stderr.partition("last lines of the build log")
    assert "line 49" in told
    assert "line 1\n" not in told
    assert "likely cause" in told
    assert "no release for the endpoint's Python" in told


def test_a_container_that_fails(workspace: Workspace, run: Run) -> None:
    workspace.register()
    service = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB"
    workspace.steps = [Step(), failed("The container crashed", service_log=service)]
    result = run(*BASE, status=1)
    assert "last lines of the service log" in result.output
    assert "MEM_FRACTION_STATIC" in result.output


def test_a_failed_change_leaves_the_old_version_and_rollback_returns_to_it(
    workspace: Workspace, run: Run
) -> None:
    workspace.register()
    workspace.register(number=2)
    run(*BASE, "--version", "1")
    workspace.steps = [Step(), failed("The container crashed")]
    result = run(*BASE, "--version", "2", status=1)
    assert f"{MODEL} version 1 still answers" in result.output
    workspace.steps = [READY]
    result = run("rollback", "chat", "--json")
    assert facts(result)["version"] == "1"
    assert "the last change failed" in result.stderr


def test_a_deployment_that_takes_too_long_goes_on(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.steps = [Step(), Step(), Step(), Step(), READY]
    result = run(*BASE, "--timeout", "0", status=1)
    assert "goes on by itself" in result.output
    assert "status chat --wait" in result.output
    run("status", "chat", "--wait")


def test_an_endpoint_that_does_not_stream_still_serves(workspace: Workspace, run: Run) -> None:
    workspace.register()
    workspace.refusals["stream"] = NO_STREAMS
    result = run(*BASE, "--json")
    assert "does not support streaming" in facts(result)["smoke"]["stream_error"]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_the_platform_may_be_away_for_a_moment(status: int, workspace: Workspace, run: Run) -> None:
    workspace.register()
    run(*BASE, "--no-wait")
    workspace.faults = [(status, "", "try again")] * 2
    run("status", "chat", "--wait")


def test_a_state_of_before_the_change_is_not_taken_for_its_end(
    workspace: Workspace, run: Run
) -> None:
    workspace.register()
    workspace.register(number=2)
    run(*BASE, "--version", "1")
    workspace.lag = 2
    workspace.steps = [Step(), failed("The container crashed")]
    run(*BASE, "--version", "2", status=1)


def test_rollback_goes_to_what_was_served_before(workspace: Workspace, run: Run) -> None:
    for number in (1, 2, 3):
        workspace.register(number=number)
    run(*BASE, "--version", "1", "--env", "A=1")
    run(*BASE, "--version", "3")
    result = run("rollback", "chat", "--json")
    assert facts(result)["version"] == "1"
    assert "what the endpoint served before" in result.stderr
    entity = sent(workspace, "PUT", "/config")[-1]["served_entities"][0]
    assert entity["environment_vars"] == {"A": "1"}
    # And forward again.
    assert facts(run("rollback", "chat", "--json"))["version"] == "3"
    assert facts(run("rollback", "chat", "--to", "2", "--json"))["version"] == "2"


def test_rollback_without_a_memory(workspace: Workspace, run: Run) -> None:
    for number in (1, 2, 3):
        workspace.register(number=number)
    run(*BASE)
    assert facts(run("rollback", "chat", "--json"))["version"] == "2"


def test_rollback_does_not_return_to_where_it_is(workspace: Workspace, run: Run) -> None:
    """A change that failed leaves the memory of the version that goes on being served."""
    for number in (1, 2, 3):
        workspace.register(number=number)
    run(*BASE, "--version", "2")
    workspace.steps = [failed("The container crashed")]
    run(*BASE, "--version", "3", status=1)
    workspace.steps = [READY]
    run(*BASE, "--version", "2")
    assert workspace.endpoints["chat"].tags == {"previous_version": "2"}
    assert facts(run("rollback", "chat", "--json"))["version"] == "1"


def test_no_way_back(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run(*BASE)
    assert "no ready version before 1" in run("rollback", "chat", status=2).output


def test_the_endpoint_as_an_option(workspace: Workspace, run: Run) -> None:
    workspace.register()
    run("deploy", "--model", MODEL, "--endpoint", "chat")
    assert "chat" in workspace.endpoints
    run(*BASE, "--endpoint", "chat")
    assert "one endpoint" in run(*BASE, "--endpoint", "other", status=2).output
    assert "name the endpoint" in run("deploy", "--model", MODEL, status=2).output
    assert set(workspace.endpoints) == {"chat"}


def test_the_gateway_of_an_endpoint_is_changed_only_where_it_was_asked_for(
    workspace: Workspace, run: Run
) -> None:
    workspace.register()
    run(*BASE, "--inference-table", "main.logs")
    run(*BASE, "--rate-limit", "9/user")
    run(*BASE, "--scale-to-zero")
    (gateway,) = sent(workspace, "PUT", "/ai-gateway")
    assert gateway["inference_table_config"]["schema_name"] == "logs"
    (limit,) = gateway["rate_limits"]
    assert (limit["calls"], limit["key"]) == (9, "user")
    # The version stayed the same, so there was nothing to remember.
    assert not sent(workspace, "PATCH", "/tags")
