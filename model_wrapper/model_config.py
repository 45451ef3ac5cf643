"""``model_config`` and artifacts of a logged model, translated to the server's settings.

Two spellings are taken::

    {"model": "/Volumes/main/llm/weights/qwen", "mem_fraction_static": 0.88}
    {"server": {"model_name": "qwen", "port": 20000, "mem-fraction-static": 0.88,
                "additional_args": "--log-level error"}}

The first uses the names of :class:`app.settings.Settings`. The second is the one of the ChatAgent
example that this product grew out of. Environment variables of the serving process win over both,
so an endpoint can be tuned without logging the model again.
"""

import os
from collections.abc import Mapping

from pydantic import ValidationError

from app.errors import InvalidRequest
from app.schemas.validation import unknown_field
from app.settings import Settings

ARTIFACT = "llm-model"

_SERVER_KEYS = {
    "model_name": "served_model_name",
    "port": "engine_port",
    "mem-fraction-static": "mem_fraction_static",
    "additional_args": "engine_args",
}
# What belongs to the process that serves HTTP, which is MLflow here, and secrets, which anybody
# could read in a logged model: ENGINE_API_KEY is taken from the environment.
_NOT_LOGGED = frozenset(
    {
        *("host", "port", "api_key", "api_key_file", "allow_no_api_key", "published_on"),
        *("media_hosts", "invocations", "max_body_bytes", "keep_alive_interval"),
        *("receive_timeout", "slow_client_timeout", "max_requests_per_key"),
        "engine_api_key",
    }
)
# How the model was logged, for those who read it; nothing to set.
INTERFACE = "interface"


def settings_of(
    model_config: Mapping[str, object] | None, artifacts: Mapping[str, str]
) -> Settings:
    """The settings for a loaded model.

    Args:
        model_config: as given when the model was logged, or to ``load_model``.
        artifacts: local paths of the model's artifacts; ``llm-model`` is the model's folder.

    Raises:
        InvalidRequest: a key is unknown or its value is no good; it is named.
    """
    try:
        return Settings(**setting_values(model_config, artifacts))  # type: ignore[arg-type]
    except ValidationError as error:
        found = error.errors(include_input=False)[0]
        name = str(found["loc"][0])
        message = found["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"model_config or environment: '{name}' {message}.") from None


def setting_values(
    model_config: Mapping[str, object] | None, artifacts: Mapping[str, str]
) -> dict[str, object]:
    """What a model sets, by the names of the settings, without what the environment overrides.

    Raises:
        InvalidRequest: a key is unknown; it is named.
    """
    values: dict[str, object] = {}
    if ARTIFACT in artifacts:
        values["model"] = artifacts[ARTIFACT]
    for key, value in (model_config or {}).items():
        if key == "server":
            values |= _server_settings(value)
        elif key in _allowed():
            values[key] = value
        elif key != INTERFACE:
            raise unknown_field(f"model_config.{key}", key, [*_allowed(), "server"])
    return unless_in_environment(values)


def unless_in_environment(values: Mapping[str, object]) -> dict[str, object]:
    """Those settings that no environment variable overrides. An empty one counts as none."""
    return {key: value for key, value in values.items() if not os.environ.get(key.upper())}


def _server_settings(server: object) -> dict[str, object]:
    if not isinstance(server, Mapping):
        raise InvalidRequest("'model_config.server' must be a mapping.")
    values = {}
    for key, value in server.items():
        name = _SERVER_KEYS.get(key) or (key if key in _allowed() else None)
        if name is None:
            raise unknown_field(f"model_config.server.{key}", key, [*_SERVER_KEYS, *_allowed()])
        values[name] = value
    return values


def _allowed() -> list[str]:
    return [name for name in Settings.model_fields if name not in _NOT_LOGGED]
