"""Registered models in Unity Catalog: which version, how it was logged, how large it is.

A version's files are read under ``/Models/catalog/schema/name/version`` of the Files API, where
MLflow's own client reads them too (``databricks_sdk_models_artifact_repo``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import DatabricksError, NotFound
from databricks.sdk.service.catalog import ModelVersionInfo, ModelVersionInfoStatus

from model_wrapper.targets.base import RegisteredModel, TargetError

# In the order of preference: a hub snapshot may hold the same weights in two formats.
_WEIGHT_FORMATS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")


class Models:
    """The registry of a workspace."""

    def __init__(self, client: WorkspaceClient) -> None:
        self._client = client

    def get(self, name: str, version: str | None, alias: str | None) -> RegisteredModel:
        """The version that was asked for, or the newest that is ready.

        Raises:
            TargetError: there is none, or it is not ready.
        """
        if name.count(".") != 2 or not all(name.split(".")):
            raise TargetError(f"--model {name!r}: give catalog.schema.name", True)
        found = self._find(name, version, alias)
        if found.status is not ModelVersionInfoStatus.READY:
            status = found.status.value if found.status else "unknown"
            raise TargetError(
                f"{name} version {found.version} is {status}: only READY versions can be served"
            )
        folder = f"/Models/{name.replace('.', '/')}/{found.version}"
        return self._read(name, str(found.version), folder)

    def ready_versions(self, name: str) -> list[int]:
        """All versions that can be served, in ascending order."""
        return sorted(
            found.version
            for found in self._client.model_versions.list(name)
            if found.version is not None and found.status is ModelVersionInfoStatus.READY
        )

    def _find(self, name: str, version: str | None, alias: str | None) -> ModelVersionInfo:
        api = self._client.model_versions
        try:
            if alias is not None:
                return api.get_by_alias(name, alias)
            if version is None:
                ready = self.ready_versions(name)
                if not ready:
                    raise TargetError(f"{name} has no version that is READY")
                version = str(ready[-1])
            if not version.isdigit():
                raise TargetError(f"--version {version!r}: give a number, or an --alias", True)
            return api.get(name, int(version))
        except NotFound as error:
            raise TargetError(f"{error}", True) from error

    def _read(self, name: str, version: str, folder: str) -> RegisteredModel:
        try:
            described = yaml.safe_load(self._text(f"{folder}/MLmodel")) or {}
            requirements = self._text(f"{folder}/requirements.txt").splitlines()
        except DatabricksError as error:
            raise TargetError(
                f"the files of {name} version {version} can't be read ({error}); "
                "EXECUTE on the model is needed"
            ) from error
        pyfunc: Mapping[str, Any] = described.get("flavors", {}).get("python_function", {})
        config = pyfunc.get("config") or {}
        return RegisteredModel(
            name=name,
            version=version,
            metadata=described.get("metadata") or {},
            config=config,
            code_file=str(pyfunc.get("model_code_path") or ""),
            mlflow_version=str(described.get("mlflow_version") or "0"),
            requirements=tuple(line.strip() for line in requirements),
            packed_environment="databricks_runtime" in described,
            weights=self._weights(folder, config),
        )

    def _text(self, path: str) -> str:
        contents = self._client.files.download(path).contents
        if contents is None:
            return ""
        with contents:
            return contents.read().decode()

    def _weights(self, folder: str, config: Mapping[str, Any]) -> int | None:
        """Bytes of the weights, wherever they are; None when they can't be counted from here."""
        place = str(config.get("model") or "")
        try:
            files = list(self._files(place if place.startswith("/Volumes/") else folder))
        except DatabricksError:
            return None
        for suffix in _WEIGHT_FORMATS:
            sizes = [size for path, size in files if path.endswith(suffix)]
            if sizes:
                return sum(sizes)
        return None

    def _files(self, folder: str) -> Iterator[tuple[str, int]]:
        for entry in self._client.files.list_directory_contents(folder):
            if entry.is_directory:
                yield from self._files(str(entry.path))
            else:
                yield str(entry.path), entry.file_size or 0
