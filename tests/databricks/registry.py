"""Unity Catalog's registered models and their files, the part of the REST API that is only read."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tests.databricks.bodies import Refused
from tests.databricks.workspace import Version, Workspace


class RegistryAPI:
    """Calls of Unity Catalog and of the Files API, each named after the SDK's method."""

    workspace: Workspace

    def list_versions(self, request: Request, _: Any) -> Any:
        name = request.path_params["model"]
        found = [each for each in self.workspace.versions if each.model == name]
        if not found:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Model '{name}' does not exist.")
        return _page(request, "model_versions", [_version(each) for each in found])

    def get_version(self, request: Request, _: Any) -> Any:
        name, number = request.path_params["model"], request.path_params["number"]
        found = self.workspace.version(name, number)
        if found is None:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"{name} has no version {number}.")
        return _version(found)

    def get_by_alias(self, request: Request, _: Any) -> Any:
        name, alias = request.path_params["model"], request.path_params["alias"]
        for each in self.workspace.versions:
            if each.model == name and alias in each.aliases:
                return _version(each)
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"{name} has no alias {alias}.")

    def download(self, request: Request, _: Any) -> Any:
        content = self.workspace.files().get(request.path_params["path"])
        if not isinstance(content, bytes):
            raise Refused(404, "NOT_FOUND", "The file does not exist.")
        return Response(content, media_type="application/octet-stream")

    def list_directory_contents(self, request: Request, _: Any) -> Any:
        folder = request.path_params["path"].rstrip("/") + "/"
        entries: dict[str, dict[str, Any]] = {}
        for path, content in self.workspace.files().items():
            if path.startswith(folder):
                name, slash, _rest = path.removeprefix(folder).partition("/")
                size = len(content) if isinstance(content, bytes) else content
                entry = {"path": folder + name, "name": name, "is_directory": bool(slash)}
                entries[name] = entry if slash else {**entry, "file_size": size}
        if not entries:
            raise Refused(404, "NOT_FOUND", "The directory does not exist.")
        return _page(request, "contents", list(entries.values()))


def _page(request: Request, key: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    # "a page may contain zero results while still providing a next_page_token", says the SDK of
    # ``ModelVersionsAPI.list``; so the first page is empty, and the others are short.
    token = request.query_params.get("page_token")
    if token is None:
        return {"next_page_token": "0"}
    begin, end = int(token), int(token) + 2
    return {key: rows[begin:end]} | ({"next_page_token": str(end)} if end < len(rows) else {})


def _version(version: Version) -> dict[str, Any]:
    return {
        "model_name": version.model.rpartition(".")[2],
        "version": version.number,
        "status": version.status,
    }
