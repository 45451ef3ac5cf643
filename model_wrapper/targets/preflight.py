"""What is known to go wrong with a model, told before half an hour of building shows it."""

from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from model_wrapper.targets.base import RegisteredModel
from model_wrapper.targets.environment import open_secrets

# "Model execution duration per request" on the limits page (2026); the timeouts page says 597.
REQUEST_SECONDS = 297
_STREAMS_SINCE = Version("2.20.2")


def warnings(model: RegisteredModel, environment: Mapping[str, str]) -> Iterator[str]:
    """Everything that speaks against deploying the model as it was logged."""
    names = {line.partition("=")[0].strip().lower() for line in model.requirements}
    if "mlflow-skinny" in names and "mlflow" not in names:
        yield "it asks for mlflow-skinny: Databricks can build no container from that"
    if "mlflow" not in names and "mlflow-skinny" not in names:
        yield "its requirements have no mlflow, which the container needs"
    if _older_than_streaming(model.mlflow_version):
        yield (
            f"it was logged with MLflow {model.mlflow_version}: endpoints stream only models "
            f"logged with {_STREAMS_SINCE} or newer"
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
