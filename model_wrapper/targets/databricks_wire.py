"""Between the words of ``targets.base`` and the SDK's classes. Pure functions."""

import re
from collections.abc import Iterable

from databricks.sdk.service import serving
from databricks.sdk.service.serving import (
    AiGatewayConfig,
    AiGatewayInferenceTableConfig,
    AiGatewayRateLimit,
    AiGatewayRateLimitKey,
    AiGatewayRateLimitRenewalPeriod,
    EndpointStateConfigUpdate,
    EndpointStateReady,
    ServedEntityInput,
    ServedEntityOutput,
    ServingModelWorkloadType,
)

from model_wrapper.targets.base import Deployment, Phase, Served, State

# Served entities in these states never answer by themselves again.
_DEAD = {"DEPLOYMENT_FAILED", "DEPLOYMENT_ABORTED"}


def served_entity(wish: Deployment) -> ServedEntityInput:
    """The one entity of an endpoint."""
    # "alphanumeric characters, dashes, and underscores"; a name of our own, to find its logs by.
    short = re.sub(r"[^A-Za-z0-9_-]", "-", wish.model.rpartition(".")[2])
    return ServedEntityInput(
        name=f"{short}-{wish.version}",
        entity_name=wish.model,
        entity_version=wish.version,
        workload_type=ServingModelWorkloadType(wish.workload),
        workload_size=wish.size,
        scale_to_zero_enabled=wish.scale_to_zero,
        environment_vars=dict(wish.environment) or None,
    )


def traffic_to(entity: ServedEntityInput) -> serving.TrafficConfig:
    """All requests to this entity."""
    route = serving.Route(served_model_name=entity.name, traffic_percentage=100)
    return serving.TrafficConfig(routes=[route])


def ai_gateway(wish: Deployment, before: AiGatewayConfig | None = None) -> AiGatewayConfig | None:
    """What the wish changes in the AI gateway, on top of what is there; None for nothing at all."""
    if wish.inference_table is None and not wish.rate_limits:
        return before
    config = AiGatewayConfig(**vars(before)) if before else AiGatewayConfig()
    if table := wish.inference_table:
        config.inference_table_config = AiGatewayInferenceTableConfig(
            catalog_name=table.catalog,
            schema_name=table.schema,
            table_name_prefix=table.prefix,
            enabled=True,
        )
    if wish.rate_limits:
        config.rate_limits = [
            AiGatewayRateLimit(
                calls=limit.calls,
                key=AiGatewayRateLimitKey(limit.key),
                renewal_period=AiGatewayRateLimitRenewalPeriod.MINUTE,
            )
            for limit in wish.rate_limits
        ]
    return config


def pending_config_of(config: serving.EndpointPendingConfig | None) -> tuple[Served, ...]:
    """What an update in progress, or one that failed, is about."""
    return _served(config.served_entities or []) if config else ()


def state_of(
    endpoint: str,
    details: serving.ServingEndpointDetailed | serving.ServingEndpoint,
    url: str,
    pending: tuple[Served, ...],
) -> State:
    """An endpoint as the REST API describes it."""
    entities: Iterable[object] = (details.config.served_entities or []) if details.config else []
    active = _served(entities)
    update = details.state.config_update if details.state else None
    answering = bool(details.state and details.state.ready is EndpointStateReady.READY)
    newest = next(iter(pending or active), None)
    return State(
        endpoint=endpoint,
        phase=_phase(update, answering, newest.deployment if newest else ""),
        active=active,
        pending=pending,
        task=details.task,
        url=url,
        tags={tag.key: tag.value or "" for tag in details.tags or []},
        answering=answering,
    )


def _phase(update: EndpointStateConfigUpdate | None, answering: bool, deployment: str) -> Phase:
    if update in (
        EndpointStateConfigUpdate.UPDATE_FAILED,
        EndpointStateConfigUpdate.UPDATE_CANCELED,
    ):
        return Phase.FAILED
    if update is EndpointStateConfigUpdate.IN_PROGRESS:
        return Phase.UPDATING
    if answering:
        return Phase.READY
    return Phase.FAILED if deployment in _DEAD else Phase.NOT_READY


def _served(entities: Iterable[object]) -> tuple[Served, ...]:
    return tuple(_one_served(entity) for entity in entities if getattr(entity, "entity_name", None))


def _one_served(entity: object) -> Served:
    # The list of endpoints has specs, which are outputs with fields missing.
    known = entity if isinstance(entity, ServedEntityOutput) else ServedEntityOutput()
    state = known.state
    return Served(
        name=getattr(entity, "name", None) or "",
        model=getattr(entity, "entity_name", None) or "",
        version=str(getattr(entity, "entity_version", None) or ""),
        workload=known.workload_type.value if known.workload_type else "",
        size=known.workload_size or "",
        scale_to_zero=bool(known.scale_to_zero_enabled),
        environment=dict(known.environment_vars or {}),
        deployment=state.deployment.value if state and state.deployment else "",
        message=(state.deployment_state_message or "") if state else "",
    )
