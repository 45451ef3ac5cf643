"""When a loaded model starts its engine: at load where it serves, else at its first request."""

import os
from collections.abc import Mapping
from typing import Protocol

from app.errors import EngineUnavailable
from app.settings import Settings
from model_wrapper.backend import Backend, backend_for
from model_wrapper.cpu_engine import with_engine
from model_wrapper.logging_time import being_logged
from model_wrapper.model_config import settings_of
from model_wrapper.termination import ends_on_sigterm

# Set by the server itself: MLflow's (``mlflow/pyfunc/scoring_server``) and Databricks'
# (``mlflow/utils/databricks_utils.py``).
_SERVING_SIGNS = ("__pyfunc_model_path__", "IS_IN_DB_MODEL_SERVING_ENV")
_EAGER = "ENGINE_START"


class ModelContext(Protocol):
    """What MLflow hands to ``load_context``."""

    artifacts: Mapping[str, str] | None
    model_config: Mapping[str, object] | None


class LazyBackend:
    """The backend of one loaded model.

    It starts at load when the process serves (one of the variables above is set) and at the
    first request in a notebook or job. ``ENGINE_START=load`` or ``ENGINE_START=request`` decides
    it by hand. While MLflow logs the model nothing starts.
    """

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._backend: Backend | None = None

    def load(self, context: ModelContext) -> None:
        """Read artifacts and configuration; start the engine if it is time."""
        self._settings = settings_of(context.model_config, context.artifacts or {})
        if starts_at_load(os.environ) and not being_logged():
            with ends_on_sigterm():
                self.get().wait_until_ready()

    def get(self) -> Backend:
        """The backend, started now if it was not yet."""
        if self._settings is None:
            raise EngineUnavailable("load_context was not called: load the model with MLflow.")
        if self._backend is None or self._backend.stopped:
            self._backend = backend_for(with_engine(self._settings))
        return self._backend

    def stop(self) -> None:
        """End the engine, if this process started one."""
        if self._backend is not None:
            self._backend.stop()


def starts_at_load(environment: Mapping[str, str]) -> bool:
    """Whether the engine is started before the first request."""
    wish = environment.get(_EAGER, "").lower()
    if wish in ("load", "request"):
        return wish == "load"
    return any(
        environment.get(sign, "").lower() not in ("", "false", "0") for sign in _SERVING_SIGNS
    )
