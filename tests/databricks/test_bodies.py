"""The played workspace takes what the SDK's classes have, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest
from databricks.sdk.service import catalog, serving
from pydantic import BaseModel, ValidationError

from model_wrapper.targets.workloads import WORKLOADS
from tests.databricks import bodies
from tests.databricks.workspace import CANCELED, READY, RECOVERING, Step, failed

CLASSES = {
    bodies.Entity: serving.ServedEntityInput,
    bodies.Route: serving.Route,
    bodies.Traffic: serving.TrafficConfig,
    bodies.Config: serving.EndpointCoreConfigInput,
    bodies.Table: serving.AiGatewayInferenceTableConfig,
    bodies.Limit: serving.AiGatewayRateLimit,
    bodies.Guardrail: serving.AiGatewayGuardrailParameters,
    bodies.Guardrails: serving.AiGatewayGuardrails,
    bodies.Gateway: serving.AiGatewayConfig,
    bodies.Tag: serving.EndpointTag,
}


@pytest.mark.parametrize("ours", CLASSES, ids=lambda ours: ours.__name__)
def test_every_field_is_one_of_the_sdks(ours: type[BaseModel]) -> None:
    theirs: Any = CLASSES[ours]
    assert ours.model_fields.keys() <= {field.name for field in dataclasses.fields(theirs)}


def test_the_same_workloads() -> None:
    theirs = {each.value for each in serving.ServingModelWorkloadType}
    assert set(get_args(bodies.Workload)) == theirs
    assert {each.name for table in WORKLOADS.values() for each in table} <= theirs


def test_states_are_the_sdks() -> None:
    for step in (Step(), READY, RECOVERING, CANCELED, failed("")):
        serving.ServedModelStateDeployment(step.deployment)
    for status in ("READY", "PENDING_REGISTRATION", "FAILED_REGISTRATION"):
        catalog.ModelVersionInfoStatus(status)


ENTITY = {
    "name": "qwen-1",
    "entity_name": "main.chat.qwen",
    "entity_version": "1",
    "workload_type": "CPU",
    "workload_size": "Small",
    "scale_to_zero_enabled": True,
}
ROUTES = [{"served_model_name": "qwen-1", "traffic_percentage": 100}]
WRONG: dict[str, dict[str, Any]] = {
    "a field that there is not": {"entity": {"workload": "CPU"}},
    "a workload that there is not": {"entity": {"workload_type": "GPU_HUGE"}},
    "a size that there is not": {"entity": {"workload_size": "Tiny"}},
    "a number for a version": {"entity": {"entity_version": 1}},
    "an alias for a version": {"entity": {"entity_version": "champion"}},
    "half a name": {"entity": {"entity_name": "qwen"}},
    "dots in a name": {"entity": {"name": "main.chat.qwen-1"}},
    "a number for a variable": {"entity": {"environment_vars": {"A": 1}}},
    "31 variables": {"entity": {"environment_vars": {f"A{number}": "" for number in range(31)}}},
    "traffic to nobody": {"routes": [{**ROUTES[0], "served_model_name": "other"}]},
    "too little traffic": {"routes": [{**ROUTES[0], "traffic_percentage": 99}]},
    "no entity": {"entities": []},
}


def config(changed: dict[str, Any]) -> dict[str, Any]:
    return {
        "served_entities": changed.get("entities", [{**ENTITY, **changed.get("entity", {})}]),
        "traffic_config": {"routes": changed.get("routes", ROUTES)},
    }


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused(name: str) -> None:
    bodies.parsed(bodies.Config, config({}))
    with pytest.raises(bodies.Refused) as caught:
        bodies.parsed(bodies.Config, config(WRONG[name]))
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("field", ENTITY)
def test_what_is_missing_is_refused(field: str) -> None:
    entity = {key: value for key, value in ENTITY.items() if key != field}
    with pytest.raises(ValidationError, match=field):
        bodies.Entity.model_validate(entity)
