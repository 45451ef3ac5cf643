"""What ``connect()`` finds out about registered models."""

from __future__ import annotations

import pytest

from model_wrapper.targets.base import TargetError
from model_wrapper.targets.databricks import DatabricksServing
from tests.databricks.conftest import MODEL
from tests.databricks.workspace import Workspace

REFUSED = (403, "PERMISSION_DENIED", "User does not have EXECUTE on the model.")


def test_everything_that_deploying_needs(workspace: Workspace, target: DatabricksServing) -> None:
    workspace.register(
        requirements=("mlflow==3.17.2", "  sglang==0.5 ", "--extra-index-url https://a.example"),
        config={"interface": "responses-agent", "port": 1},
        task="agent/v1/responses",
        mlflow_version="3.9.0",
        weights=5,
    )
    found = target.registered(MODEL, "1", None)
    assert (found.name, found.version, found.mlflow_version) == (MODEL, "1", "3.9.0")
    assert (found.task, found.interface) == ("agent/v1/responses", "responses-agent")
    assert found.config["port"] == 1
    assert found.requirements[1:] == ("sglang==0.5", "--extra-index-url https://a.example")
    assert (found.needs_gpu, found.packed_environment, found.weights) == (True, False, 5)


@pytest.mark.parametrize(
    ("version", "alias", "expected"),
    [("1", None, "1"), (None, "champion", "2"), (None, None, "12")],
)
def test_which_version(
    version: str | None,
    alias: str | None,
    expected: str,
    workspace: Workspace,
    target: DatabricksServing,
) -> None:
    # Not in their order, and 12 after 9 only as numbers; over several pages.
    for number in (12, 1, 9, 2):
        workspace.register(number=number, aliases=("champion",) * (number == 2))
    workspace.register(number=13, status="FAILED_REGISTRATION")
    assert target.registered(MODEL, version, alias).version == expected
    assert target.versions(MODEL) == [1, 2, 9, 12]


@pytest.mark.parametrize(
    ("name", "version", "alias", "words", "mistake"),
    [
        ("qwen", None, None, "catalog.schema.name", True),
        ("main.chat.", None, None, "catalog.schema.name", True),
        ("main.chat.other", None, None, "'main.chat.other' does not exist", True),
        (MODEL, "7", None, "no version 7", True),
        (MODEL, None, "nobody", "no alias nobody", True),
        (MODEL, "newest", None, "give a number", True),
        (MODEL, "2", None, "version 2 is PENDING_REGISTRATION", False),
        ("main.chat.unready", None, None, "no version that is READY", False),
    ],
)
def test_none_to_deploy(
    name: str,
    version: str | None,
    alias: str | None,
    words: str,
    mistake: bool,
    workspace: Workspace,
    target: DatabricksServing,
) -> None:
    workspace.register()
    workspace.register(number=2, status="PENDING_REGISTRATION")
    workspace.register("main.chat.unready", status="FAILED_REGISTRATION")
    with pytest.raises(TargetError, match=words) as caught:
        target.registered(name, version, alias)
    assert caught.value.mistake is mistake


def test_files_that_may_not_be_read(workspace: Workspace, target: DatabricksServing) -> None:
    workspace.register()
    workspace.refusals["download"] = REFUSED
    with pytest.raises(TargetError, match="EXECUTE on the model is needed"):
        target.registered(MODEL, "1", None)


def test_weights_are_counted_once(workspace: Workspace, target: DatabricksServing) -> None:
    """A snapshot with the same weights in two formats, in shards and in folders."""
    workspace.register(weights=0)
    workspace.versions[0].files |= {
        "artifacts/qwen/a/model-1.safetensors": 10,
        "artifacts/qwen/b/model-2.safetensors": 20,
        "artifacts/qwen/pytorch_model.bin": 31,
        "artifacts/qwen/tokenizer.json": 7,
    }
    assert target.registered(MODEL, "1", None).weights == 30


def test_weights_in_a_volume(workspace: Workspace, target: DatabricksServing) -> None:
    volume = "/Volumes/main/llm/weights/a model"
    workspace.register(weights=0, config={"model": volume})
    assert target.registered(MODEL, "1", None).weights is None
    workspace.volumes = {f"{volume}/model.gguf": 40, f"{volume}/README.md": 1}
    assert target.registered(MODEL, "1", None).weights == 40
    workspace.refusals["list_directory_contents"] = REFUSED
    assert target.registered(MODEL, "1", None).weights is None
