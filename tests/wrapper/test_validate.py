"""``python -m model_wrapper validate``: sound models pass, faulty ones get reasons and fixes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from model_wrapper.contract.launch import prepare
from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import ROOT, Sandbox, wait_until

# A ChatAgent of somebody's own, which needs no engine. Streaming, it answers something else.
TOY = """
import os
import time
from mlflow.models import set_model
from mlflow.pyfunc import ChatAgent
from mlflow.types.agent import ChatAgentChunk, ChatAgentMessage, ChatAgentResponse

class Toy(ChatAgent):
    def load_context(self, context):
        if "TOY_DOES_NOT_LOAD" in os.environ:
            raise RuntimeError("its weights are gone")

    def predict(self, messages, context=None, custom_inputs=None):
        if "TOY_HANGS" in os.environ:
            time.sleep(3600)
        return ChatAgentResponse(messages=[message("Red, green, blue.")])

    def predict_stream(self, messages, context=None, custom_inputs=None):
        for word in ("Cyan, ", "magenta, ", "yellow."):
            yield ChatAgentChunk(delta=message(word))

def message(text):
    return ChatAgentMessage(role="assistant", content=text, id="always the same")

set_model(Toy())
"""
SAVE = """
import sys, mlflow
question = {"messages": [{"role": "user", "content": "Hi"}]}
mlflow.pyfunc.save_model(
    sys.argv[1], python_model=sys.argv[2], code_paths=[sys.argv[2]], input_example=question,
    pip_requirements=["mlflow"],
)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Another temporary folder, so that whatever is left behind is ours."""
    with Sandbox(tmp_path_factory.mktemp("validate") / "s") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def toy(place: Sandbox) -> Path:
    source, model = place.folder / "toy.py", place.folder / "toy"
    source.write_text(TOY, encoding="utf-8")
    saving = place.start("-c", SAVE, str(model), str(source))
    assert saving.wait(120) == 0
    return model


def validate(
    sandbox: Sandbox, uri: str, *options: str, **environment: str
) -> tuple[int, dict[str, Any], str]:
    """Exit status, what ``--json`` says, and what people read."""
    done = sandbox.wrapper("validate", uri, "--env", "local", "--json", *options, **environment)
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else {}, done.stderr


def by_check(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in report["checks"]}


def test_the_built_in_model_keeps_its_contract(
    place: Sandbox, sandbox: Sandbox, logged: dict[str, dict[str, Any]], models: Any
) -> None:
    """With an engine of its own, and behind MLflow's server."""
    tracking = sandbox.environment["MLFLOW_TRACKING_URI"]
    status, report, table = validate(
        place, logged["chat-agent"]["model_uri"], "--http", "--tracking-uri", tracking
    )
    assert status == 0, table
    assert report["passed"] is True
    rows = by_check(report)
    assert {row["status"] for row in rows.values()} == {"passed"}, table
    assert len(rows) == 18
    assert "one engine" in rows["two workers, one engine"]["reason"]
    assert "engine ended" in rows["nothing is left behind"]["reason"]
    assert place.engines() == []


def test_the_other_interfaces_with_an_engine_that_runs(
    sandbox: Sandbox,
    place: Sandbox,
    logged: dict[str, dict[str, Any]],
    models: dict[str, LoadedModel],
) -> None:
    options = ("--tracking-uri", sandbox.environment["MLFLOW_TRACKING_URI"])
    environment = {"ENGINE_URL": sandbox.engine_url()}

    def run(interface: str) -> tuple[int, dict[str, Any], str]:
        return validate(place, logged[interface]["model_uri"], *options, **environment)

    # One after the other: together they would see what batches do to close decisions.
    for status, report, table in map(run, ("responses-agent", "chat-model")):
        unlike = {name for name, row in by_check(report).items() if row["status"] != "passed"}
        assert unlike == {"two workers, one engine"}, table
        assert status == 0
    assert len(sandbox.engines()) == 1


def test_faults_are_named_with_their_fixes(place: Sandbox, toy: Path) -> None:
    status, report, table = validate(place, str(toy), "--http")
    assert status == 1
    assert report["passed"] is False
    failed = {name: row for name, row in by_check(report).items() if row["status"] == "failed"}
    assert set(failed) == {
        "predict_stream gives the same text",
        "ids",
        "finish reason and usage",
        "tool calls",
        "errors",
        "HTTP: errors",
    }
    assert "Cyan" in failed["predict_stream gives the same text"]["reason"]
    assert all(row["fix"] for row in failed.values())
    assert "6 failed" in table
    assert "the same id" in table
    assert Path(report["log"]).is_file()


def test_a_model_that_does_not_load(place: Sandbox, toy: Path) -> None:
    status, report, _ = validate(place, str(toy), TOY_DOES_NOT_LOAD="1")
    assert status == 1
    (row,) = report["checks"]
    assert row["check"].startswith("loading")
    assert "its weights are gone" in row["reason"]
    log = Path(report["log"]).read_text("utf-8")
    assert "Traceback" in log
    assert "its weights are gone" in log


@pytest.mark.parametrize("uri", ["models:/nobody@champion", "/nowhere/at/all"])
def test_no_such_model(place: Sandbox, uri: str) -> None:
    status, report, told = validate(place, uri)
    assert (status, report) == (2, {})
    assert "error:" in told
    assert uri in told
    assert "Traceback" not in told


def test_an_interrupted_validation_leaves_nothing_behind(place: Sandbox, toy: Path) -> None:
    temporary = Path(place.environment["TMPDIR"])
    before = set(temporary.iterdir())
    process = place.start(
        *("-m", "model_wrapper", "validate", str(toy), "--env", "local"),
        environment={"PYTHONPATH": str(ROOT), "TOY_HANGS": "1"},
    )
    # The first check logs the model once more, and its ``predict`` hangs.
    wait_until(lambda: _runs(place, "contract.log_again"), "second process of the suite")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    wait_until(lambda: not place.processes(), "end of its processes", within=10)
    assert set(temporary.iterdir()) == before


def _runs(place: Sandbox, module: str) -> bool:
    return any(module in process.cmdline() for process in place.processes())


def test_weights_are_linked_and_code_is_copied(tmp_path: Path) -> None:
    model, root = tmp_path / "model", tmp_path / "root"
    for name in ("MLmodel", "code/app/cli.py", "artifacts/small/model.safetensors"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text(name)
    root.mkdir()
    place = prepare(model, root)
    assert not (place.model / "code/app/cli.py").is_symlink()
    assert (place.model / "code/app/cli.py").read_text() == "code/app/cli.py"
    weights = "artifacts/small/model.safetensors"
    assert (place.model / weights).samefile(model / weights)
    # A model may be in a cache that is made of links; MLflow takes none that leads out of it.
    assert not (place.model / weights).is_symlink()
    assert (place.suite / "contract" / "__main__.py").is_file()
    assert " " in str(place.model)
    assert not str(place.model).isascii()
    assert place.environment["TMPDIR"] == str(root / "t")
    assert "PYTHONPATH" not in place.environment
