"""The wrapper with MLflow 2.20.2, the release that the ChatAgent example was written for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wrapper.conftest import LIMIT
from tests.wrapper.loaded import LoadedModel
from tests.wrapper.sandbox import ROOT, Sandbox
from tests.wrapper.scoring import Scoring
from tests.wrapper.test_chat_agent import GREEDY, MESSAGES, joined, without_ids

RELEASE = "2.20.2"
LIST = ROOT / "requirements" / f"model-mlflow-{RELEASE}.txt"
ENVIRONMENT = ROOT / f".venv-model-mlflow-{RELEASE}"


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with the whole MLflow, made once."""
    found, complete = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed"
    if not complete.exists() or complete.stat().st_mtime < LIST.stat().st_mtime:
        uv = [sys.executable, "-m", "uv"]
        subprocess.run(
            [*uv, "venv", "--clear", "--python", sys.executable, ENVIRONMENT], check=True
        )
        install = [*uv, "pip", "install", "--python", str(found), "-r", str(LIST)]
        subprocess.run(install, check=True)
        complete.touch()
    return found


@pytest.fixture(scope="module")
def old(
    python: Path, sandbox: Sandbox, scoring: Scoring, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoadedModel]:
    """Logged and loaded by the old release, before the engine that the newest one started."""
    with Sandbox(tmp_path_factory.mktemp("old") / "empty", python) as own:
        uri = own.log(*LIMIT)["model_uri"]
        with LoadedModel(own, uri, TMPDIR=sandbox.environment["TMPDIR"]) as model:
            assert model.facts["mlflow"] == RELEASE
            yield model
        assert own.engines() == []


def test_same_answer_as_the_newest(old: LoadedModel, scoring: Scoring) -> None:
    request = {"messages": MESSAGES, "custom_inputs": GREEDY}
    newest = scoring.invoke(**request).json()
    assert without_ids(old.predict(**request)) == without_ids(newest)
    assert joined(old.stream(**request)) == newest["messages"][0]["content"]


def test_errors(old: LoadedModel) -> None:
    error = old.refused(messages=MESSAGES, custom_inputs={"temperatur": 1})
    assert (error["error"], error["status"]) == ("INVALID_PARAMETER_VALUE", 400)
    assert "temperatur" in error["message"]
