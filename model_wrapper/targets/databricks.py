"""Databricks Model Serving and Unity Catalog, through ``databricks-sdk``.

Auth is the SDK's own: environment variables, ``~/.databrickscfg``, a notebook's context.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks.sdk.errors import (
    DatabricksError,
    DeadlineExceeded,
    InternalError,
    NotFound,
    TemporarilyUnavailable,
)
from databricks.sdk.service import serving

from model_wrapper.targets import invocations
from model_wrapper.targets.base import (
    Deployment,
    JSONObject,
    LogKind,
    NoSuchEndpoint,
    RegisteredModel,
    State,
    TargetError,
    Unreachable,
)
from model_wrapper.targets.databricks_models import Models
from model_wrapper.targets.databricks_wire import (
    ai_gateway,
    pending_config_of,
    served_entity,
    state_of,
    traffic_to,
)

# The SDK retries a refused connection for five minutes by itself, in silence.
_RETRY_SECONDS = 30
_AWAY = (InternalError, TemporarilyUnavailable, DeadlineExceeded)


class DatabricksServing:
    """A workspace as a :class:`model_wrapper.targets.base.Target`."""

    def __init__(self, client: WorkspaceClient) -> None:
        self._client = client
        self._models = Models(client)

    @property
    def cloud(self) -> str:
        """The cloud that the workspace's address belongs to."""
        config = self._client.config
        return "azure" if config.is_azure else "gcp" if config.is_gcp else "aws"

    def registered(self, name: str, version: str | None, alias: str | None) -> RegisteredModel:
        """A version registered in Unity Catalog."""
        with _readable_errors():
            return self._models.get(name, version, alias)

    def versions(self, name: str) -> list[int]:
        """All versions in READY state."""
        with _readable_errors():
            return self._models.ready_versions(name)

    def create(self, wish: Deployment) -> None:
        """Make an endpoint with one served entity that gets all traffic."""
        entity = served_entity(wish)
        with _readable_errors():
            self._client.serving_endpoints.create(
                wish.endpoint,
                config=serving.EndpointCoreConfigInput(
                    name=wish.endpoint, served_entities=[entity], traffic_config=traffic_to(entity)
                ),
                ai_gateway=ai_gateway(wish),
                tags=_tags(wish),
            )

    def update(self, wish: Deployment) -> None:
        """Replace the served entity; settings of the AI gateway that are not wished stay."""
        entity = served_entity(wish)
        api = self._client.serving_endpoints
        with _readable_errors(wish.endpoint):
            before = api.get(wish.endpoint)
            gateway = ai_gateway(wish, before.ai_gateway)
            api.update_config(
                wish.endpoint, served_entities=[entity], traffic_config=traffic_to(entity)
            )
            if gateway is not None and gateway != before.ai_gateway:
                api.put_ai_gateway(
                    wish.endpoint,
                    fallback_config=gateway.fallback_config,
                    guardrails=gateway.guardrails,
                    inference_table_config=gateway.inference_table_config,
                    rate_limits=gateway.rate_limits,
                    usage_tracking_config=gateway.usage_tracking_config,
                )
            if wish.tags:
                api.patch(wish.endpoint, add_tags=_tags(wish))

    def state(self, endpoint: str) -> State:
        """The endpoint now."""
        with _readable_errors(endpoint):
            details = self._client.serving_endpoints.get(endpoint)
        return state_of(
            endpoint, details, self._url(endpoint), pending_config_of(details.pending_config)
        )

    def states(self) -> Iterator[State]:
        """All endpoints; the list has no details of what they serve."""
        with _readable_errors():
            for details in self._client.serving_endpoints.list():
                state = state_of(details.name or "", details, self._url(details.name or ""), ())
                yield replace(state, pending=())

    def log(self, endpoint: str, served: str, kind: LogKind) -> str:
        """A log, or nothing as long as Databricks has none."""
        api = self._client.serving_endpoints
        try:
            with _readable_errors(endpoint):
                if kind == "build":
                    return api.build_logs(endpoint, served).logs or ""
                return api.logs(endpoint, served).logs or ""
        except NoSuchEndpoint:
            return ""

    def invoke(self, endpoint: str, body: JSONObject) -> JSONObject:
        """Ask the endpoint and return its whole answer."""
        return invocations.invoke(self._url(endpoint), self._client.config.authenticate(), body)

    def stream(self, endpoint: str, body: JSONObject) -> Iterator[JSONObject]:
        """Ask the endpoint and return its events as they come."""
        return invocations.stream(self._url(endpoint), self._client.config.authenticate(), body)

    def delete(self, endpoint: str) -> None:
        """Remove the endpoint."""
        with _readable_errors(endpoint):
            self._client.serving_endpoints.delete(endpoint)

    def _url(self, endpoint: str) -> str:
        return f"{self._client.config.host}/serving-endpoints/{endpoint}/invocations"


def connect() -> DatabricksServing:
    """The workspace that the SDK's usual settings name.

    Raises:
        TargetError: they name none, or no way to sign in.
    """
    try:
        # It warns of workspaces that do not describe themselves, and then works with them.
        logging.getLogger("databricks.sdk").setLevel(logging.ERROR)
        config = Config(retry_timeout_seconds=_RETRY_SECONDS, product="chat-server")
        return DatabricksServing(WorkspaceClient(config=config))
    except ValueError as error:
        message = str(error).splitlines()[0]
        raise TargetError(
            f"can't sign in to Databricks: {message}\nSet DATABRICKS_HOST and DATABRICKS_TOKEN, or "
            "DATABRICKS_CONFIG_PROFILE to a profile in ~/.databrickscfg",
            True,
        ) from error


def _tags(wish: Deployment) -> list[serving.EndpointTag]:
    return [serving.EndpointTag(key, value) for key, value in wish.tags.items()]


@contextmanager
def _readable_errors(endpoint: str | None = None) -> Iterator[None]:
    """Turn the SDK's exceptions into ours, with the platform's own words.

    Args:
        endpoint: that the calls are about, and that may not exist.
    """
    try:
        yield
    except NotFound as error:
        raise (NoSuchEndpoint if endpoint else TargetError)(_words(error), True) from error
    except DatabricksError as error:
        # Itself and no subclass: a status that the SDK does not know, such as a proxy's 502.
        away = isinstance(error, _AWAY) or type(error) is DatabricksError
        raise (Unreachable if away else TargetError)(_words(error)) from error
    except (requests.RequestException, TimeoutError) as error:
        # When the SDK has asked again for long enough, it tells only that, and has the reason here.
        last = error.__cause__
        why = f"{error}: {_words(last)}" if isinstance(last, DatabricksError) else error
        raise Unreachable(f"Databricks can't be reached: {why}") from error


def _words(error: DatabricksError) -> str:
    code = error.error_code
    return f"{code}: {error}" if code and code not in str(error) else str(error)
