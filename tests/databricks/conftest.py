"""A workspace that is played, and the commands run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from databricks.sdk.clock import RealClock
from typer.testing import CliRunner, Result

from model_wrapper.cli import cli
from model_wrapper.targets import invocations, waiting
from model_wrapper.targets.databricks import DatabricksServing, connect
from tests.databricks.server import API, running
from tests.databricks.workspace import Workspace

MODEL = "main.chat.qwen"
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def api() -> Iterator[tuple[API, str]]:
    served = API(Workspace())
    with running(served) as url:
        yield served, url


@pytest.fixture
def workspace(api: tuple[API, str], monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A new one, behind the address that the settings name."""
    served, url = api
    served.workspace = Workspace()
    monkeypatch.setenv("DATABRICKS_HOST", url)
    monkeypatch.setenv("DATABRICKS_TOKEN", served.workspace.token)
    # Nobody's own configuration, no metadata service of a cloud.
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("DATABRICKS_AUTH_TYPE", "pat")
    # Nobody waits in a test.
    monkeypatch.setattr(waiting, "INTERVAL", 0.01)
    monkeypatch.setattr(invocations, "PAUSE", 0.0)
    monkeypatch.setattr(RealClock, "sleep", lambda _clock, _seconds: None)
    return served.workspace


@pytest.fixture
def target(workspace: Workspace) -> DatabricksServing:
    return connect()


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """``python -m model_wrapper …``; what it printed, and its exit status."""

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
        assert result.exit_code == status, result.output + repr(result.exception)
        assert "Traceback" not in result.output
        return result

    return run


def facts(result: Result) -> Any:
    """The last line on standard output."""
    return json.loads(result.stdout.splitlines()[-1])
