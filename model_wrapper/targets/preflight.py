"""What is known to go wrong with a model, told before half an hour of building shows it."""

import re
from collections.abc import Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from model_wrapper.targets.base import RegisteredModel
from model_wrapper.targets.environment import open_secrets

# "Model execution duration per request" on the limits page (2026); the timeouts page says 597.
REQUEST_SECONDS = 297
_STREAMS_SINCE = Version("2.20.2")
# SGLang's flags for spreading a model over GPUs, which it never does by itself.
_SPREADS = re.compile(r"--(tp|tp-size|tensor-parallel-size|pp|pp-size|pipeline-parallel-size)\b")
_AGENTS = ("chat-agent", "responses-agent")


def warnings(
    model: RegisteredModel,
    environment: Mapping[str, str],
    *,
    gpus: int = 1,
    rate_limits: bool = False,
) -> Iterator[str]:
    """Everything that speaks against deploying the model as it was logged.

    Args:
        model: as it was registered.
        environment: variables of the endpoint, which win over what was logged.
        gpus: that the workload has.
        rate_limits: whether some are asked for.
    """
    names = set(_names(model.requirements))
    if "mlflow-skinny" in names and "mlflow" not in names:
        yield "it asks for mlflow-skinny: Databricks can build no container from that"
    if "mlflow" not in names and "mlflow-skinny" not in names:
        yield "its requirements have no mlflow, which the container needs"
    if _older_than_streaming(model.mlflow_version):
        yield (
            f"it was logged with MLflow {model.mlflow_version}: endpoints stream only models "
            f"logged with {_STREAMS_SINCE} or newer"
        )
    if model.interface in _AGENTS and model.task == "llm/v1/chat":
        yield (
            f"it is a {model.interface} under the task llm/v1/chat: such an endpoint has been seen "
            "to refuse streams. Leave --task out when logging, unless the endpoint can't be made"
        )
    if rate_limits and model.interface in _AGENTS:
        # AiGatewayConfig in databricks-sdk 0.162: "agent endpoints currently only support
        # inference tables".
        yield "Databricks supports no rate limits on agents' endpoints and may refuse them"
    if gpus > 1 and not _SPREADS.search(_engine_args(model, environment)):
        yield (
            f"the workload has {gpus} GPUs, and the engine will use one: "
            f"--env ENGINE_ARGS='--tp-size {gpus}'"
        )
    given = environment.get("REQUEST_TIMEOUT", model.config.get("request_timeout", 600))
    if _number(given) > REQUEST_SECONDS:
        yield (
            f"request_timeout is {given} s, but Databricks ends a request after {REQUEST_SECONDS}: "
            "callers of long answers would see a cut connection, not an error. "
            "--env REQUEST_TIMEOUT=290"
        )
    if "entrypoint" in model.metadata and not model.packed_environment:
        yield (
            "it has an entrypoint, but was registered without its environment: "
            'mlflow.register_model(…, env_pack="databricks_model_serving")'
        )
    for name in open_secrets(dict(environment)):
        yield (
            f"{name} can be read by everybody who sees the endpoint: --env "
            f"'{name}={{{{secrets/scope/key}}}}'"
        )


def _names(requirements: tuple[str, ...]) -> Iterator[str]:
    for line in requirements:
        try:
            yield canonicalize_name(Requirement(line).name)
        except InvalidRequirement:
            continue  # an option of pip, or the address of a wheel


def _engine_args(model: RegisteredModel, environment: Mapping[str, str]) -> str:
    server = model.config.get("server")
    legacy = server.get("additional_args") if isinstance(server, Mapping) else None
    # An empty variable counts as none.
    found = environment.get("ENGINE_ARGS") or model.config.get("engine_args") or legacy
    return str(found or "")


def _older_than_streaming(version: str) -> bool:
    try:
        return Version(version) < _STREAMS_SINCE
    except InvalidVersion:
        return False


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
