"""The REST calls of a workspace that the SDK and MLflow's client make, over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.databricks import answers
from tests.databricks.bodies import Config, Create, Gateway, Tags
from tests.databricks.workspace import Endpoint, Version, Workspace
from tests.wrapper.sandbox import free_port

Body = TypeVar("Body", bound=BaseModel)


class Refused(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class API:
    """The routes, each named after the SDK's method that calls it."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        api = "/api/2.0/serving-endpoints"
        models = "/api/2.1/unity-catalog/models/{model}"
        table = [
            ("POST", api, self.create),
            ("GET", api, self.list),
            ("GET", f"{api}/{{name}}", self.get),
            ("DELETE", f"{api}/{{name}}", self.delete),
            ("PUT", f"{api}/{{name}}/config", self.update_config),
            ("PUT", f"{api}/{{name}}/ai-gateway", self.put_ai_gateway),
            ("PATCH", f"{api}/{{name}}/tags", self.patch),
            ("GET", f"{api}/{{name}}/served-models/{{served}}/build-logs", self.build_logs),
            ("GET", f"{api}/{{name}}/served-models/{{served}}/logs", self.logs),
            ("POST", "/serving-endpoints/{name}/invocations", self.invocations),
            ("GET", f"{models}/versions", self.list_versions),
            ("GET", f"{models}/versions/{{number:int}}", self.get_version),
            ("GET", f"{models}/aliases/{{alias}}", self.get_by_alias),
            ("GET", "/api/2.0/fs/files{path:path}", self.download),
            ("GET", "/api/2.0/fs/directories{path:path}", self.list_directory_contents),
        ]
        self.app = Starlette(
            routes=[Route(path, self._guarded(call), methods=[way]) for way, path, call in table]
        )

    def _guarded(self, call: Any) -> Any:
        async def guarded(request: Request) -> Response:
            content = await request.body()
            body = json.loads(content) if content else None
            self.workspace.requests.append((request.method, request.url.path, body))
            try:
                if request.headers.get("authorization") != f"Bearer {self.workspace.token}":
                    raise Refused(403, "PERMISSION_DENIED", "Invalid access token.")
                if self.workspace.faults:
                    raise Refused(*self.workspace.faults.pop(0))
                found = call(request, body)
                return found if isinstance(found, Response) else JSONResponse(found)
            except Refused as error:
                told = {"error_code": error.code, "message": error.message}
                return JSONResponse(told, error.status)

        return guarded

    # Serving endpoints

    def create(self, _: Request, body: Any) -> Any:
        wish = _parsed(Create, body)
        if wish.name in self.workspace.endpoints:
            raise Refused(
                400, "RESOURCE_ALREADY_EXISTS", f"Endpoint with name '{wish.name}' already exists."
            )
        self._check_versions(wish.config)
        tags = {tag.key: tag.value or "" for tag in wish.tags}
        endpoint = Endpoint(wish.name, wish.ai_gateway, tags)
        self.workspace.endpoints[wish.name] = endpoint
        endpoint.change(wish.config, self.workspace.steps)
        return endpoint.as_json(self.workspace.task_of(endpoint))

    def list(self, _: Request, __: Any) -> Any:
        endpoints = self.workspace.endpoints.values()
        return {"endpoints": [each.as_json(self.workspace.task_of(each)) for each in endpoints]}

    def get(self, request: Request, _: Any) -> Any:
        endpoint = self._endpoint(request)
        told = endpoint.as_json(self.workspace.task_of(endpoint))
        endpoint.go_on()
        return told

    def delete(self, request: Request, _: Any) -> Any:
        del self.workspace.endpoints[self._endpoint(request).name]
        return {}

    def update_config(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        if endpoint.step and endpoint.step.outcome is None:
            raise Refused(
                409,
                "RESOURCE_CONFLICT",
                f"Endpoint {endpoint.name} can't be updated: an update is in progress.",
            )
        config = _parsed(Config, body)
        self._check_versions(config)
        endpoint.change(config, self.workspace.steps)
        return endpoint.as_json(self.workspace.task_of(endpoint))

    def put_ai_gateway(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        endpoint.gateway = _parsed(Gateway, body)
        return endpoint.gateway.model_dump(exclude_none=True)

    def patch(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        change = _parsed(Tags, body)
        endpoint.tags |= {tag.key: tag.value or "" for tag in change.add_tags}
        tags = [{"key": key, "value": value} for key, value in endpoint.tags.items()]
        return {"tags": tags}

    def build_logs(self, request: Request, _: Any) -> Any:
        return self._logs(request, "build")

    def logs(self, request: Request, _: Any) -> Any:
        return self._logs(request, "service")

    def invocations(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        if endpoint.active is None:
            raise Refused(400, "BAD_REQUEST", f"Endpoint {endpoint.name} is not ready.")
        task = self.workspace.task_of(endpoint)
        if reason := answers.refusal(task, body):
            raise Refused(400, "INVALID_PARAMETER_VALUE", reason)
        if not body.get("stream"):
            return answers.whole(task)
        if self.workspace.refuses_streams:
            raise Refused(400, "BAD_REQUEST", "This endpoint does not support streaming.")
        events = [f"data: {json.dumps(event)}\n\n" for event in answers.pieces(task)]
        return StreamingResponse(
            iter([*events, "data: [DONE]\n\n"]), media_type="text/event-stream"
        )

    # Unity Catalog

    def list_versions(self, request: Request, _: Any) -> Any:
        name = request.path_params["model"]
        found = [each for each in self.workspace.versions if each.model == name]
        if not found:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"Model '{name}' does not exist.")
        return {"model_versions": [_version(each) for each in found]}

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

    # Files

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
        return {"contents": list(entries.values())}

    def _endpoint(self, request: Request) -> Endpoint:
        name = request.path_params["name"]
        found = self.workspace.endpoints.get(name)
        if found is None:
            raise Refused(
                404,
                "RESOURCE_DOES_NOT_EXIST",
                f"Endpoint with name '{name}' does not exist. Please verify that it exists.",
            )
        return found

    def _logs(self, request: Request, kind: str) -> Any:
        endpoint = self._endpoint(request)
        text = endpoint.logs.get((request.path_params["served"], kind))
        if text is None:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "Logs are not available.")
        return {"logs": text}

    def _check_versions(self, config: Config) -> None:
        for entity in config.served_entities:
            version = self.workspace.version(entity.entity_name, int(entity.entity_version))
            if version is None or version.status != "READY":
                raise Refused(
                    400,
                    "INVALID_PARAMETER_VALUE",
                    f"{entity.entity_name} version {entity.entity_version} is not ready.",
                )


def _parsed(kind: type[Body], body: Any) -> Body:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise Refused(400, "INVALID_PARAMETER_VALUE", str(error)) from None


def _version(version: Version) -> dict[str, Any]:
    return {
        "model_name": version.model.rpartition(".")[2],
        "version": version.number,
        "status": version.status,
    }


@contextmanager
def running(workspace: Workspace) -> Iterator[str]:
    """The address of a workspace, in a thread of its own."""
    port = free_port()
    config = uvicorn.Config(API(workspace).app, port=port, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
