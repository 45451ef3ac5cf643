"""What a logged model says to the server: its settings, with the weights on this machine."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
from filelock import FileLock
from mlflow.models import Model

from app.errors import NotFound
from model_wrapper.model_config import ARTIFACT, setting_values


@dataclass(frozen=True)
class Resolved:
    """A logged model, ready to be served."""

    settings: dict[str, object]
    interface: str | None


def resolve(uri: str, store: Path) -> Resolved:
    """Find a logged model, and fetch it if it has weights that are elsewhere.

    Args:
        uri: as MLflow takes it: ``models:/name@alias``, ``runs:/…``, a folder.
        store: folder for models that had to be fetched; each is fetched once.

    Raises:
        NotFound: it is not a model of this server.
        InvalidRequest: its configuration has an unknown key.
        MlflowException: MLflow can't find it.
    """
    model = Model.load(uri)
    flavor = model.flavors.get("python_function", {})
    metadata = model.metadata or {}
    if flavor.get("loader_module") != "mlflow.pyfunc.loaders.code_model" or not flavor.get("code"):
        raise NotFound(f"{uri} was not logged by `python -m model_wrapper log`.")
    artifacts = _artifacts(uri, model, flavor, store)
    return Resolved(setting_values(flavor.get("config"), artifacts), metadata.get("interface"))


def _artifacts(uri: str, model: Model, flavor: dict[str, Any], store: Path) -> dict[str, str]:
    entries = flavor.get("artifacts") or {}
    if ARTIFACT not in entries:
        return {}
    folder = _local_folder(uri, store / str(model.model_uuid))
    return {ARTIFACT: str((folder / entries[ARTIFACT]["path"]).resolve())}


def _local_folder(uri: str, fetched: Path) -> Path:
    fetched.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{fetched}.lock"):
        if fetched.exists():
            return fetched
        with tempfile.TemporaryDirectory(dir=fetched.parent) as scratch:
            # Without a target MLflow copies nothing that lies on this machine, and fetches the
            # rest into the temporary folder, which here is one that the result can be moved from.
            before, tempfile.tempdir = tempfile.tempdir, scratch
            try:
                found = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri))
            finally:
                tempfile.tempdir = before
            if not found.resolve().is_relative_to(Path(scratch).resolve()):
                return found
            found.rename(fetched)
    return fetched
