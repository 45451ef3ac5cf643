"""Each check of a model's own server passes a sound one and catches the fault that it is for."""

from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

with warnings.catch_warnings():
    # What MLflow warns of while it is imported is not ours to mend.
    warnings.simplefilter("ignore")
    from model_wrapper.contract import entrypoint
    from model_wrapper.contract.entrypoint import Entrypoint
    from model_wrapper.contract.outcome import Outcome, run_check
    from model_wrapper.contract.subject import Subject

TOY = f"python -u {shlex.quote(str(Path(__file__).with_name('toy_server.py')))}"
WHERE = "--host 0.0.0.0 --port 8080"


def subject_in(folder: Path, task: str = "llm/v1/chat") -> Subject:
    (folder / "artifacts").mkdir(exist_ok=True)
    subject = Subject(folder, folder)
    subject.__dict__["description"] = SimpleNamespace(flavors={}, metadata={"task": task})
    return subject


def outcomes(folder: Path, command: str = f"{TOY} {WHERE}") -> dict[str, Outcome]:
    checks = Entrypoint(subject_in(folder), command).checks()
    found = [run_check(name, check, fix) for name, check, fix in checks]
    return {outcome.check.removeprefix("entrypoint: "): outcome for outcome in found}


def test_a_sound_server_passes(tmp_path: Path) -> None:
    found = outcomes(tmp_path)
    assert {outcome.status for outcome in found.values()} == {"passed"}, found
    assert list(found) == [
        *("task and port", "comes up", "routes", "answers", "errors", "SIGTERM ends it"),
    ]


@pytest.mark.parametrize(
    ("fault", "check", "reason"),
    [
        ("no start", "comes up", "its weights are gone"),
        ("no model", "comes up", "/v1/models"),
        ("no metrics", "routes", "GET /metrics gives 404"),
        ("metrics of its own", "routes", "Prometheus"),
        ("mute", "answers", "empty"),
        ("two minds", "answers", "POST /invocations (text) gives another text"),
        ("asks for the model", "answers", "POST /invocations: HTTP 400"),
        ("no stream", "answers", "it sends application/json"),
        ("no end", "answers", "no [DONE]"),
        ("errors of its own", "errors", "error_code"),
        ("does not end", "SIGTERM ends it", "after SIGTERM"),
    ],
)
def test_a_fault_is_caught(
    fault: str, check: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setattr(entrypoint, "_START_WITHIN", 3.0)
    monkeypatch.setattr(entrypoint, "_END_WITHIN", 1.0)
    found = outcomes(tmp_path)
    failed = {name: outcome for name, outcome in found.items() if outcome.status == "failed"}
    assert list(failed) == [check], found
    assert reason in failed[check].reason
    assert failed[check].fix
    assert ("routes" in found) == (check != "comes up")


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        ("vllm serve qwen --host 0.0.0.0 --port 8080", "passed", "port 8080"),
        ("vllm serve qwen --host=0.0.0.0 --port=8000", "failed", "port 8000"),
        ("vllm serve qwen --host localhost --port 8080", "failed", "localhost"),
        ("./serve.sh", "warning", "does not say"),
    ],
)
def test_where_it_listens_is_read_from_the_command(
    command: str, status: str, reason: str, tmp_path: Path
) -> None:
    check = Entrypoint(subject_in(tmp_path), command).description
    outcome = run_check("the check", check, "the fix")
    assert outcome.status == status
    assert reason in outcome.reason


@pytest.mark.parametrize(("port", "status"), [(8080, "passed"), (9000, "failed")])
def test_where_our_own_server_listens_is_read_from_its_settings(
    port: int, status: str, tmp_path: Path
) -> None:
    subject = subject_in(tmp_path)
    server = tmp_path / "artifacts" / "server"
    server.mkdir()
    http = {"host": "0.0.0.0", "port": port}
    (server / "settings.json").write_text(json.dumps({"http": http}), encoding="utf-8")
    check = Entrypoint(subject, "python -u server").description
    outcome = run_check("the check", check, "the fix")
    assert outcome.status == status
    assert str(port) in outcome.reason


def test_databricks_takes_one_task_only(tmp_path: Path) -> None:
    check = Entrypoint(subject_in(tmp_path, "agent/v2/chat"), f"x {WHERE}").description
    assert run_check("the check", check).status == "failed"


def test_a_server_is_not_left_behind_when_the_suite_is_interrupted(tmp_path: Path) -> None:
    started = Entrypoint(subject_in(tmp_path), f"{TOY} {WHERE}")
    checks = started.checks()
    for name, check, _ in checks:
        check()
        if name == "entrypoint: comes up":
            break
    assert started._process is not None
    assert started._process.poll() is None
    checks.close()
    assert started._process.poll() == 0
