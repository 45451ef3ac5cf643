"""What the REST API takes. A field that it does not know, or lacks, fails the request.

Fields and enums: ``databricks.sdk.service.serving`` 0.162 and the API reference,
https://docs.databricks.com/api/workspace/servingendpoints/create
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Body = TypeVar("Body", bound=BaseModel)

Workload = Literal[
    "CPU",
    "CPU_MEDIUM",
    "CPU_LARGE",
    "GPU_SMALL",
    "GPU_MEDIUM",
    "GPU_LARGE",
    "GPU_XLARGE",
    "GPU_XLARGE_8",
    "MULTIGPU_MEDIUM",
]
EntityName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Entity(Strict):
    name: EntityName
    entity_name: Annotated[str, Field(pattern=r"^[^.]+\.[^.]+\.[^.]+$")]
    entity_version: Annotated[str, Field(pattern=r"^\d+$")]
    workload_type: Workload
    workload_size: Literal["Small", "Medium", "Large"]
    scale_to_zero_enabled: bool
    # "up to 30 environment variables", https://docs.databricks.com/aws/en/machine-learning/
    # model-serving/store-env-variable-model-serving
    environment_vars: Annotated[dict[str, str] | None, Field(max_length=30)] = None


class Route(Strict):
    served_model_name: str
    traffic_percentage: Annotated[int, Field(ge=0, le=100)]


class Traffic(Strict):
    routes: list[Route]


class Config(Strict):
    name: str | None = None
    served_entities: Annotated[list[Entity], Field(min_length=1, max_length=15)]
    traffic_config: Traffic

    @model_validator(mode="after")
    def _traffic_adds_up(self) -> Config:
        names = {entity.name for entity in self.served_entities}
        if {route.served_model_name for route in self.traffic_config.routes} - names:
            raise ValueError("traffic goes to an entity that is not served")
        if sum(route.traffic_percentage for route in self.traffic_config.routes) != 100:
            raise ValueError("traffic must add up to 100 percent")
        return self


class Table(Strict):
    catalog_name: str
    schema_name: str
    table_name_prefix: str | None = None
    enabled: bool


class Limit(Strict):
    calls: Annotated[int, Field(gt=0)]
    key: Literal["endpoint", "user"]
    renewal_period: Literal["minute"]


class Switch(Strict):
    enabled: bool


class Guardrail(Strict):
    invalid_keywords: list[str] | None = None
    safety: bool | None = None


class Guardrails(Strict):
    input: Guardrail | None = None
    output: Guardrail | None = None


class Gateway(Strict):
    fallback_config: Switch | None = None
    guardrails: Guardrails | None = None
    inference_table_config: Table | None = None
    rate_limits: list[Limit] | None = None
    usage_tracking_config: Switch | None = None


class Tag(Strict):
    key: str
    value: str | None = None


class Create(Strict):
    name: EntityName
    config: Config
    ai_gateway: Gateway | None = None
    tags: list[Tag] = []


class Tags(Strict):
    add_tags: list[Tag] = []
    delete_tags: list[str] = []


class Refused(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def parsed(kind: type[Body], body: Any) -> Body:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise Refused(400, "INVALID_PARAMETER_VALUE", str(error)) from None
