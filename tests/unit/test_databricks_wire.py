"""An endpoint as Databricks describes it, in the words of the targets."""

from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk.service.serving import (
    AiGatewayConfig,
    AiGatewayUsageTrackingConfig,
    ServingEndpoint,
    ServingEndpointDetailed,
)

from model_wrapper.targets.base import Deployment, InferenceTable, Phase, RateLimit
from model_wrapper.targets.databricks_wire import (
    ai_gateway,
    pending_config_of,
    served_entity,
    state_of,
    traffic_to,
)


def entity(deployment: str, version: str = "1", message: str = "") -> dict[str, Any]:
    return {
        "name": f"qwen-{version}",
        "entity_name": "main.chat.qwen",
        "entity_version": version,
        "workload_type": "GPU_MEDIUM",
        "workload_size": "Small",
        "scale_to_zero_enabled": True,
        "environment_vars": {"A": "1"},
        "state": {"deployment": deployment, "deployment_state_message": message},
    }


def described(ready: str, update: str, **configs: str) -> Any:
    told: dict[str, Any] = {"name": "chat", "state": {"ready": ready, "config_update": update}}
    for name, deployment in configs.items():
        told[name] = {"served_entities": [entity(deployment)]}
    details = ServingEndpointDetailed.from_dict(told)
    return state_of("chat", details, "url", pending_config_of(details.pending_config))


@pytest.mark.parametrize(
    ("ready", "update", "active", "phase"),
    [
        ("READY", "NOT_UPDATING", "DEPLOYMENT_READY", Phase.READY),
        ("READY", "IN_PROGRESS", "DEPLOYMENT_READY", Phase.UPDATING),
        ("NOT_READY", "IN_PROGRESS", "DEPLOYMENT_CREATING", Phase.UPDATING),
        ("READY", "UPDATE_FAILED", "DEPLOYMENT_READY", Phase.FAILED),
        ("NOT_READY", "UPDATE_CANCELED", "DEPLOYMENT_CREATING", Phase.FAILED),
        # It was ready once and may be again.
        ("NOT_READY", "NOT_UPDATING", "DEPLOYMENT_RECOVERING", Phase.NOT_READY),
        ("NOT_READY", "NOT_UPDATING", "DEPLOYMENT_FAILED", Phase.FAILED),
        ("NOT_READY", "NOT_UPDATING", "DEPLOYMENT_ABORTED", Phase.FAILED),
        # What a newer platform may say.
        ("NOT_READY", "SOMETHING_NEW", "SOMETHING_NEW", Phase.NOT_READY),
    ],
)
def test_phases(ready: str, update: str, active: str, phase: Phase) -> None:
    state = described(ready, update, config=active)
    assert state.phase is phase
    assert state.answering == (ready == "READY")


def test_what_is_being_deployed_is_the_newest() -> None:
    state = described(
        "READY", "IN_PROGRESS", config="DEPLOYMENT_READY", pending_config="DEPLOYMENT_CREATING"
    )
    assert state.newest == state.pending[0]
    assert state.newest.deployment == "DEPLOYMENT_CREATING"
    assert state.active[0].environment == {"A": "1"}


def test_the_list_of_endpoints_has_fewer_details() -> None:
    told = {
        "name": "chat",
        "state": {"ready": "READY", "config_update": "NOT_UPDATING"},
        "config": {"served_entities": [{"name": "qwen-1", "entity_name": "main.chat.qwen",
                                        "entity_version": "1"}]},
        "task": "agent/v2/chat",
        "tags": [{"key": "team"}],
    }  # fmt: skip
    state = state_of("chat", ServingEndpoint.from_dict(told), "url", ())
    assert state.active[0].model == "main.chat.qwen"
    assert (state.active[0].workload, state.task, state.tags) == ("", "agent/v2/chat", {"team": ""})


def test_an_endpoint_of_somebody_elses_model() -> None:
    """An external or a foundation model has no name in Unity Catalog."""
    told = {"name": "x", "config": {"served_entities": [{"name": "gpt", "external_model": {}}]}}
    assert state_of("x", ServingEndpoint.from_dict(told), "url", ()).active == ()


def test_a_served_entitys_name_has_only_what_is_allowed() -> None:
    wish = Deployment("chat", "main.chat.my model é", "12", "CPU", "Small", False)
    assert served_entity(wish).name == "my-model---12"


def wish(**changed: Any) -> Deployment:
    return Deployment("chat", "main.chat.qwen", "1", "CPU", "Small", False, **changed)


def test_all_traffic_goes_to_the_one_entity() -> None:
    entity = served_entity(wish())
    assert entity.environment_vars is None
    assert traffic_to(entity).as_dict() == {
        "routes": [{"served_model_name": entity.name, "traffic_percentage": 100}]
    }


def test_a_gateway_that_nobody_asked_to_change() -> None:
    before = AiGatewayConfig(usage_tracking_config=AiGatewayUsageTrackingConfig(enabled=True))
    assert ai_gateway(wish()) is None
    assert ai_gateway(wish(), before) == before


def test_a_gateway_changes_only_where_it_was_asked_to() -> None:
    tracking = {"usage_tracking_config": {"enabled": True}}
    before = AiGatewayConfig.from_dict(tracking)
    limits = (RateLimit(5), RateLimit(2, "user"))
    first = ai_gateway(wish(rate_limits=limits), before)
    assert first is not None
    told = [
        {"calls": 5, "key": "endpoint", "renewal_period": "minute"},
        {"calls": 2, "key": "user", "renewal_period": "minute"},
    ]
    assert first.as_dict() == {**tracking, "rate_limits": told}
    second = ai_gateway(wish(inference_table=InferenceTable("main", "logs", "chat")), first)
    assert second is not None
    assert second.as_dict() == {
        **first.as_dict(),
        "inference_table_config": {
            "catalog_name": "main",
            "schema_name": "logs",
            "table_name_prefix": "chat",
            "enabled": True,
        },
    }
    # What was there is compared with what shall be, so it must not change with it.
    assert before.as_dict() == tracking
