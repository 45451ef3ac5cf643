"""docs/databricks.md: its commands run, its table is the one that the commands use."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli as app_cli
from model_wrapper.cli import cli
from model_wrapper.targets.failures import KNOWN_FAILURES
from model_wrapper.targets.workloads import WORKLOADS
from tests.databricks.conftest import Run
from tests.databricks.workspace import Step, Workspace
from tests.unit.model_folders import WHOLE, write
from tests.wrapper.sandbox import Sandbox

GUIDE = (Path(__file__).parents[2] / "docs" / "databricks.md").read_text("utf-8")
PROGRAM = "python -m model_wrapper "


def commands() -> list[list[str]]:
    """The arguments of every line that starts our program."""
    blocks = re.sub(r" \\\n +", " ", GUIDE)
    lines = [line.strip() for line in blocks.splitlines() if line.startswith("    " + PROGRAM)]
    return [shlex.split(line.removeprefix(PROGRAM)) for line in lines]


LOGGING = [line for line in commands() if line[0] == "log"]
ON_DATABRICKS = [line for line in commands() if line[0] not in ("log", "validate")]


def test_it_has_them_all() -> None:
    told = {line[0] for line in commands()}
    assert told == {"log", "validate", "deploy", "status", "logs", "rollback", "query", "delete"}


@pytest.mark.parametrize("line", ON_DATABRICKS, ids=" ".join)
def test_a_command_on_databricks(
    line: list[str], workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        workspace.register("main.llm.qwen", number, aliases=("champion",) * (number == 2))
    workspace.steps = [Step(build_log="built", service_log="up"), *workspace.steps]
    run("deploy", "chat", "--model", "main.llm.qwen")
    # A gateway's address is the workspace's here, which asks for a key.
    monkeypatch.setenv("API_KEY", workspace.token)
    places = {"http://127.0.0.1:8080": os.environ["DATABRICKS_HOST"]}
    # It would go on until Ctrl-C.
    run(*[places.get(word, word) for word in line if word != "--follow"])


@pytest.mark.parametrize("line", LOGGING, ids=" ".join)
def test_a_command_that_logs(line: list[str], tmp_path: Path) -> None:
    """With a folder of ours for the weights, and MLflow's own registry for Databricks'."""
    local = {
        "/path/to/Qwen2.5-7B-Instruct": str(write(tmp_path / "weights", WHOLE)),
        "databricks": "sqlite:///mlflow.db",
        "databricks-uc": "sqlite:///mlflow.db",
    }
    with Sandbox(tmp_path / "sandbox") as sandbox:
        arguments = [local.get(word, word) for word in line[1:]]
        facts = sandbox.log(*arguments, MLFLOW_TRACKING_URI="sqlite:///mlflow.db")
        assert not sandbox.engines()
    assert facts["model_uri"]
    assert (facts["registered_model"] is not None) == ("--register" in line)


@pytest.mark.parametrize("line", [line for line in commands() if line[0] == "validate"])
def test_validate_has_these_options(line: list[str]) -> None:
    """It is run elsewhere (tests/wrapper); here only its arguments are read."""
    result = CliRunner().invoke(cli, [*line, "--help"])
    assert result.exit_code == 0


def test_serve_has_these_options() -> None:
    """It is run elsewhere too (tests/wrapper)."""
    lines = re.findall(r"^    python -m app (serve .*)$", GUIDE, re.MULTILINE)
    assert lines
    for line in lines:
        assert CliRunner().invoke(app_cli, [*shlex.split(line), "--help"]).exit_code == 0


def test_the_table_of_errors_is_the_one_in_the_code() -> None:
    section = GUIDE.partition("## What error texts mean")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    assert rows == [[f"`{known.text}`", known.cause, known.fix] for known in KNOWN_FAILURES]


def test_every_workload_is_told() -> None:
    section = GUIDE.partition("### Choosing a workload")[2].partition("\n###")[0]
    gpus = {each.name for table in WORKLOADS.values() for each in table if each.gpus}
    assert gpus == set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
