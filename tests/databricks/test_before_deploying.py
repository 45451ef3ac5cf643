"""What ``deploy`` says, chooses and refuses before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.databricks.conftest import MODEL, Run
from tests.databricks.workspace import Workspace

BASE = ("deploy", "chat", "--model", MODEL)

WARNINGS: dict[str, tuple[dict[str, Any], str]] = {
    "skinny": ({"requirements": ("mlflow-skinny==3.17.2", "sglang==0.5")}, "mlflow-skinny"),
    "old": ({"mlflow_version": "2.20.1"}, "endpoints stream only"),
    "no mlflow": ({"requirements": ("sglang==0.5",)}, "have no mlflow"),
    "timeout": ({"config": {"request_timeout": 600}}, "297"),
    "task": ({"task": "llm/v1/chat"}, "refuse streams"),
    "several GPUs": ({"weights": 60 * 10**9}, "--env ENGINE_ARGS='--tp-size 4'"),
    "entrypoint": ({"metadata": {"entrypoint": "python -u server"}}, "env_pack"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_is_known_to_go_wrong_is_told_first(name: str, workspace: Workspace, run: Run) -> None:
    options, words = WARNINGS[name]
    workspace.register(**options)
    result = run(*BASE, "--no-wait")
    assert "warning" in result.output
    assert words in result.output.replace("\n", " ")


SOUND: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "as log makes it": ({}, ()),
    "requirements that are not pinned": (
        {"requirements": ("--extra-index-url https://x", "mlflow>=3.1", "sglang==0.5")}, ()),
    "OpenAI's schema under its own task": (
        {"task": "llm/v1/chat", "config": {"interface": "chat-model"}}, ("--rate-limit", "9")),
    "spread when logged": (
        {"weights": 60 * 10**9, "config": {"engine_args": "--tp-size 4"}}, ()),
    "spread as long ago": (
        {"weights": 60 * 10**9, "config": {"server": {"additional_args": "--tp 4"}}}, ()),
    "spread by a variable": (
        {"weights": 60 * 10**9}, ("--env", "ENGINE_ARGS=--tensor-parallel-size 4")),
    "a timeout by a variable": (
        {"config": {"request_timeout": 600}}, ("--env", "REQUEST_TIMEOUT=290")),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_what_has_nothing_against_it(name: str, workspace: Workspace, run: Run) -> None:
    options, arguments = SOUND[name]
    workspace.register(**options)
    assert "warning" not in run(*BASE, *arguments, "--no-wait").output


def test_a_wish_that_is_known_to_go_wrong(workspace: Workspace, run: Run) -> None:
    workspace.register()
    told = run(*BASE, "--rate-limit", "9", "--workload", "GPU_SMALL", "--no-wait").output
    assert "no rate limits on agents' endpoints" in told
    assert "no bfloat16" in told


def test_the_compute_of_an_endpoint_stays(workspace: Workspace, run: Run) -> None:
    workspace.register(weights=10**9)
    workspace.register(number=2, weights=60 * 10**9)
    run(*BASE, "--version", "1")
    told = run(*BASE, "--version", "2", status=2).stderr
    assert "do not fit on GPU_MEDIUM" in told
    assert "--workload" in told
    told = run(*BASE, "--version", "2", "--workload", "MULTIGPU_MEDIUM").output
    assert "MULTIGPU_MEDIUM: as asked for" in told
    assert "MULTIGPU_MEDIUM: as the endpoint has it" in run(*BASE, "--size", "Large").output


def test_weights_in_a_volume_count(workspace: Workspace, run: Run) -> None:
    workspace.volumes = {
        "/Volumes/main/llm/qwen/a.safetensors": 5 * 10**9,
        "/Volumes/main/llm/qwen/more/b.safetensors": 5 * 10**9,
        "/Volumes/main/llm/qwen/original.bin": 90 * 10**9,
    }
    workspace.register(weights=0, config={"model": "/Volumes/main/llm/qwen"})
    assert "9.3 GiB weights" in run(*BASE, "--no-wait").output


def test_weights_that_nobody_can_count(workspace: Workspace, run: Run) -> None:
    workspace.register(weights=0, config={"model": "Qwen/Qwen2.5-7B-Instruct"})
    assert "give --workload" in run(*BASE, status=2).stderr
    assert "GPU_MEDIUM: as asked for" in run(*BASE, "--workload", "GPU_MEDIUM").output


def test_an_open_secret_is_told(workspace: Workspace, run: Run) -> None:
    workspace.register()
    assert "everybody who sees" in run(*BASE, "--no-wait", "--env", "HF_TOKEN=hf_x").output


MISTAKES = {
    "no such model": (["--model", "main.chat.other"], "does not exist"),
    "no such version": (["--version", "9"], "no version 9"),
    "a version that is no number": (["--version", "champion"], "--alias"),
    "no such alias": (["--alias", "nobody"], "no alias nobody"),
    "half a name": (["--model", "qwen"], "catalog.schema.name"),
    "both": (["--version", "1", "--alias", "x"], "not both"),
    "variable without a value": (["--env", "A"], "NAME=value"),
    "a secret with blanks": (["--env", "A={{ secrets/x/y }}"], "{{secrets/scope/key}}"),
    "table": (["--inference-table", "main"], "catalog.schema"),
    "rate": (["--rate-limit", "many"], "--rate-limit"),
    "no such compute": (["--workload", "GPU_HUGE"], "GPU_HUGE"),
    "no GPU": (["--workload", "CPU"], "no GPU"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_made(name: str, workspace: Workspace, run: Run) -> None:
    workspace.register()
    options, words = MISTAKES[name]
    assert words in run(*BASE, *options, status=2).output
    assert not workspace.endpoints
