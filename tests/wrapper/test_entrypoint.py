"""``log --route entrypoint``: the command in the metadata, run in the artifacts folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import requests
import yaml

from tests.wrapper.sandbox import Sandbox, free_port, wait_until

QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY: dict[str, Any] = {"messages": QUESTION, "temperature": 0, "max_tokens": 16}


@dataclass(frozen=True)
class Served:
    """The logged server, which runs."""

    url: str
    model: Path
    sandbox: Sandbox

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=60)

    def invoke(self, **body: Any) -> requests.Response:
        return requests.post(f"{self.url}/invocations", json=body, timeout=120)

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="unused", timeout=120)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Sandbox(tmp_path_factory.mktemp("entrypoint") / "モデル の") as sandbox:
        logged = sandbox.log("--route", "entrypoint", "--config", "context_length=512")
        (model,) = sandbox.folder.rglob(f"{logged['model_uri'].removeprefix('models:/')}/artifacts")
        description = yaml.safe_load((model / "MLmodel").read_text("utf-8"))
        assert description["metadata"]["task"] == "llm/v1/chat"
        program, *arguments = shlex.split(description["metadata"]["entrypoint"])
        assert program == "python"
        port, log = free_port(), sandbox.folder / "server.log"
        with log.open("wb") as output:
            process = sandbox.start(
                *arguments,
                output=output,
                stdout=output,
                cwd=model / "artifacts",
                environment={"PORT": str(port), "HOST": "127.0.0.1"},
            )
        served = Served(f"http://127.0.0.1:{port}", model, sandbox)
        wait_until(lambda: process.poll() is not None or _ready(served), "server of the model")
        assert process.poll() is None, log.read_text("utf-8", "replace")[-4000:]
        yield served
        assert len(sandbox.engines()) == 1
        process.terminate()
        assert process.wait(60) == 0
        assert sandbox.processes() == []


def _ready(served: Served) -> bool:
    try:
        return served.get("/v1/models").status_code == 200
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def text(served: Served) -> str:
    """What the model says, by OpenAI's own client."""
    client = served.client()
    name = client.models.list().data[0].id
    assert name == "smollm2-135m-instruct"
    # The first one fills the prefix cache, with which all others are computed.
    answers = [client.chat.completions.create(model=name, **GREEDY) for _ in range(2)]
    return answers[1].choices[0].message.content or ""


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/ping", "/metrics"])
def test_routes_of_platform_and_monitoring(served: Served, path: str) -> None:
    assert served.get(path).status_code == 200


def test_a_streamed_chat(served: Served, text: str) -> None:
    client = served.client()
    model = client.models.list().data[0].id
    chunks = list(client.chat.completions.create(model=model, stream=True, **GREEDY))
    assert len(chunks) > 2
    assert (
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    )
    assert text.strip()


def test_invocations_is_a_chat_completion_without_a_models_name(served: Served, text: str) -> None:
    client = openai.OpenAI(base_url=served.url, api_key="unused", timeout=120)
    kind = openai.types.chat.ChatCompletion
    completion = client.post("/invocations", cast_to=kind, body=GREEDY)
    assert completion.model == "smollm2-135m-instruct"
    assert completion.choices[0].message.content == text
    assert completion.usage is not None


def test_invocations_streams_a_chat_completion(served: Served, text: str) -> None:
    answer = served.invoke(**GREEDY, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    answer.encoding = "utf-8"
    events = [line.removeprefix("data: ") for line in answer.text.split("\n") if line]
    assert events.pop() == "[DONE]"
    chunks = [openai.types.chat.ChatCompletionChunk.model_validate_json(each) for each in events]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


def test_errors_have_openais_form(served: Served) -> None:
    answer = served.invoke(messages="hello")
    assert answer.status_code == 400
    assert answer.json()["error"]["type"]


def test_what_was_logged_holds_and_what_was_asked_is_counted(served: Served) -> None:
    assert served.get("/v1/models").json()["data"][0]["max_model_len"] == 512
    served.invoke(**GREEDY)
    shown = served.get("/metrics").text
    assert 'chat_server_engine_phase{phase="ready"} 1.0' in shown
    assert 'chat_server_requests_total{route="/invocations",status="2xx"}' in shown


def test_validate_runs_the_entrypoint_as_well(served: Served) -> None:
    """By MLflow and by its own server, both before the engine that runs."""
    done = served.sandbox.wrapper(
        *("validate", str(served.model), "--env", "local", "--json"),
        ENGINE_URL=served.sandbox.engine_url(),
    )
    report = json.loads(done.stdout.splitlines()[-1])
    rows = {row["check"]: row["status"] for row in report["checks"]}
    assert {name for name in rows if name.startswith("entrypoint: ")} == {
        f"entrypoint: {what}"
        for what in (
            *("task and port", "comes up", "routes", "answers", "errors", "SIGTERM ends it"),
        )
    }
    # There is no engine of its own that workers could share.
    unlike = {name for name, status in rows.items() if status != "passed"}
    assert unlike == {"two workers, one engine"}, done.stderr
    assert done.returncode == 0
    assert len(served.sandbox.engines()) == 1
