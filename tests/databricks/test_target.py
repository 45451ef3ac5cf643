"""``connect()`` against a workspace: endpoints made, changed, looked at and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from model_wrapper.targets.base import (
    Deployment,
    InferenceTable,
    NoSuchEndpoint,
    RateLimit,
    TargetError,
    Unreachable,
)
from model_wrapper.targets.databricks import DatabricksServing
from tests.databricks.bodies import Gateway
from tests.databricks.conftest import MODEL
from tests.databricks.workspace import (
    READY,
    Step,
    Workspace,
)


def wish(version: str = "1", **changed: Any) -> Deployment:
    asked = {"workload": "GPU_MEDIUM", "size": "Small", "scale_to_zero": True, **changed}
    return Deployment("chat", MODEL, version, **asked)


@pytest.fixture
def registered(workspace: Workspace) -> Workspace:
    """With two versions."""
    workspace.register()
    workspace.register(number=2)
    return workspace


def test_what_is_sent_to_make_an_endpoint(registered: Workspace, target: DatabricksServing) -> None:
    target.create(
        wish(
            environment={"A": "{{secrets/a/b}}"},
            inference_table=InferenceTable("main", "logs"),
            rate_limits=(RateLimit(5, "user"),),
            tags={"team": "nlp"},
        )
    )
    entity = {
        "name": "qwen-1",
        "entity_name": MODEL,
        "entity_version": "1",
        "workload_type": "GPU_MEDIUM",
        "workload_size": "Small",
        "scale_to_zero_enabled": True,
        "environment_vars": {"A": "{{secrets/a/b}}"},
    }
    route = {"served_model_name": "qwen-1", "traffic_percentage": 100}
    table = {"catalog_name": "main", "schema_name": "logs", "enabled": True}
    limit = {"calls": 5, "key": "user", "renewal_period": "minute"}
    method, path, body = registered.requests[-1]
    assert (method, path) == ("POST", "/api/2.0/serving-endpoints")
    assert body == {
        "name": "chat",
        "config": {
            "name": "chat",
            "served_entities": [entity],
            "traffic_config": {"routes": [route]},
        },
        "ai_gateway": {"inference_table_config": table, "rate_limits": [limit]},
        "tags": [{"key": "team", "value": "nlp"}],
    }


def test_a_change_keeps_the_gateway_settings_of_others(
    registered: Workspace, target: DatabricksServing
) -> None:
    registered.script("chat", READY)
    target.create(wish())
    there = {
        "usage_tracking_config": {"enabled": True},
        "guardrails": {"input": {"safety": True}},
        "fallback_config": {"enabled": False},
    }
    registered.endpoints["chat"].gateway = Gateway.model_validate(there)
    registered.requests.clear()
    target.update(wish("2"))
    assert [method for method, _, _ in registered.requests] == ["GET", "PUT"]
    target.update(wish("2", rate_limits=(RateLimit(7),), tags={"a": "b"}))
    gateway = registered.endpoints["chat"].gateway
    assert gateway is not None
    limit = {"calls": 7, "key": "endpoint", "renewal_period": "minute"}
    assert gateway.model_dump(exclude_none=True) == {**there, "rate_limits": [limit]}
    assert target.state("chat").tags == {"a": "b"}


REFUSED = {
    "a name that is taken": ("chat", {}, "RESOURCE_ALREADY_EXISTS: .*already exists"),
    "no such version": ("new", {"version": "9"}, "version 9 is not ready"),
    "31 variables": ("new", {"environment": dict.fromkeys(map(str, range(31)), "")}, "at most 30"),
    "a size that is none": ("new", {"size": "Huge"}, "'Small', 'Medium' or 'Large'"),
    "a name that can't be": ("a b", {}, "pattern"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wish_that_is_refused(
    name: str, registered: Workspace, target: DatabricksServing
) -> None:
    registered.script("chat", READY)
    target.create(wish())
    endpoint, changed, words = REFUSED[name]
    asked = {**vars(wish()), "endpoint": endpoint, **changed}
    with pytest.raises(TargetError, match=words) as caught:
        target.create(Deployment(**asked))
    assert not isinstance(caught.value, (NoSuchEndpoint, Unreachable))
    assert list(registered.endpoints) == ["chat"]


def test_one_change_at_a_time(registered: Workspace, target: DatabricksServing) -> None:
    registered.script("chat", Step(), Step(), READY)
    target.create(wish())
    with pytest.raises(TargetError, match="update is in progress"):
        target.update(wish("2"))


def test_deleted(registered: Workspace, target: DatabricksServing) -> None:
    target.create(wish())
    assert [each.endpoint for each in target.states()] == ["chat"]
    target.delete("chat")
    assert list(target.states()) == []
    for call in (target.state, target.delete):
        with pytest.raises(NoSuchEndpoint, match="'chat' does not exist") as caught:
            call("chat")
        assert caught.value.mistake
    with pytest.raises(NoSuchEndpoint):
        target.update(wish())
