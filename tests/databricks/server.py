"""The REST calls of a workspace that the SDK and MLflow's client make, over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.databricks import answers
from tests.databricks.bodies import Config, Create, Gateway, Refused, Tags, parsed
from tests.databricks.registry import RegistryAPI
from tests.databricks.workspace import CUT, Endpoint, Workspace
from tests.wrapper.sandbox import free_port


class API(RegistryAPI):
    """The routes, each named after the SDK's method that calls it."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        api = "/api/2.0/serving-endpoints"
        models = "/api/2.1/unity-catalog/models/{model}"
        table = [
            ("POST", api, self.create),
            ("GET", api, self.list),
            ("GET", f"{api}/", self.list),  # so says MLflow's client
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
        routes = [Route(path, self._guarded(call), methods=[way]) for way, path, call in table]
        ways = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
        # Not 404, which some callers take for "there is none".
        routes.append(Route("/{path:path}", _no_such_call, methods=ways))
        self.app = Starlette(routes=routes)

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
                if refusal := self.workspace.refusals.get(call.__name__):
                    raise Refused(*refusal)
                found = call(request, body)
                return found if isinstance(found, Response) else JSONResponse(found)
            except Refused as error:
                told = {"error_code": error.code, "message": error.message}
                return JSONResponse(told, error.status)

        return guarded

    # Serving endpoints

    def create(self, _: Request, body: Any) -> Any:
        wish = parsed(Create, body)
        if wish.name in self.workspace.endpoints:
            raise Refused(
                400, "RESOURCE_ALREADY_EXISTS", f"Endpoint with name '{wish.name}' already exists."
            )
        self._check_versions(wish.config)
        tags = {tag.key: tag.value or "" for tag in wish.tags}
        endpoint = Endpoint(wish.name, wish.ai_gateway, tags)
        self.workspace.endpoints[wish.name] = endpoint
        endpoint.change(wish.config, self.workspace.steps_of(wish.name))
        return endpoint.as_json(self.workspace.task_of(endpoint))

    def list(self, _: Request, __: Any) -> Any:
        endpoints = self.workspace.endpoints.values()
        # Without the field where there is none.
        told = [each.as_listed(self.workspace.task_of(each)) for each in endpoints]
        return {"endpoints": told} if told else {}

    def get(self, request: Request, _: Any) -> Any:
        endpoint = self._endpoint(request)
        if endpoint.before:
            return endpoint.before.pop()
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
        config = parsed(Config, body)
        self._check_versions(config)
        task = self.workspace.task_of(endpoint)
        endpoint.before = [endpoint.as_json(task)] * self.workspace.lag
        endpoint.change(config, self.workspace.steps_of(endpoint.name))
        return endpoint.as_json(self.workspace.task_of(endpoint))

    def put_ai_gateway(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        endpoint.gateway = parsed(Gateway, body)
        return endpoint.gateway.model_dump(exclude_none=True)

    def patch(self, request: Request, body: Any) -> Any:
        endpoint = self._endpoint(request)
        change = parsed(Tags, body)
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
            return answers.whole(task) if self.workspace.answer is None else self.workspace.answer
        return self.stream(request, task)

    def stream(self, _: Request, task: Any) -> Response:
        """What ``invocations`` answers where a stream is asked for."""
        if refusal := self.workspace.refusals.get("stream"):
            raise Refused(*refusal)
        if self.workspace.stream_type == "application/json":
            return JSONResponse(answers.whole(task))
        events = [f"data: {json.dumps(event)}\n\n" for event in answers.pieces(task)]
        scripted = self.workspace.stream
        pieces = [*events, "data: [DONE]\n\n"] if scripted is None else scripted
        return StreamingResponse(_one_by_one(pieces), media_type=self.workspace.stream_type)

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


def _no_such_call(request: Request) -> Response:
    message = f"no source has {request.method} {request.url.path}"
    return JSONResponse({"error_code": "NOT_IMPLEMENTED", "message": message}, 501)


def _one_by_one(pieces: list[str]) -> Iterator[str]:
    for piece in pieces:
        if piece == CUT:
            raise ConnectionAbortedError("the server goes away, as the test wants it")
        yield piece


@contextmanager
def running(api: API) -> Iterator[str]:
    """Its address, in a thread of its own."""
    port = free_port()
    config = uvicorn.Config(api.app, port=port, log_config=None, lifespan="off")
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
