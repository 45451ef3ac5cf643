"""MODEL is a folder, or one readable line says why it can't be served."""

import json
from pathlib import Path

import pytest

from app.models import folder_check
from app.models.prepare import prepare
from tests.unit.model_folders import WHOLE, run, safetensors, write


@pytest.mark.parametrize("name", ["model", "my model", "日本語 モデル", "a'b\"c$d"])
def test_a_whole_folder_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / name, WHOLE)
    done = run(str(folder), tmp_path / "cache")
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"path": str(folder), "served_model_name": name}
    assert not (tmp_path / "cache").exists()


def test_relative_and_home_paths_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "org" / "name", WHOLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    # The first is spelled like a hub id; the folder wins.
    for model in ("org/name", "./org/name", "~/org/name"):
        assert prepare(model, tmp_path / "cache") == (folder, "name")


SHARDS = {
    "model-00001-of-00003.safetensors": safetensors(),
    "model-00003-of-00003.safetensors": safetensors(),
}
INDEX = {"weight_map": {"a": "model-00001-of-00003.safetensors", "b": "other.safetensors"}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"config.json": None}, "config.json is missing"),
        ({"config.json": b"{"}, "config.json is not JSON"),
        ({"config.json": b"{}"}, "config.json names no architecture"),
        ({"config.json": b"[]"}, "config.json names no architecture"),
        ({"tokenizer.json": None}, "a tokenizer is missing"),
        ({"model.safetensors": None}, "the weights are missing"),
        ({"model.safetensors": b""}, "model.safetensors is cut short"),
        ({"model.safetensors": safetensors()[:-1]}, "model.safetensors is cut short"),
        ({"model.safetensors": safetensors()[:20]}, "model.safetensors is cut short"),
        (
            {"model.safetensors": b"\x02" + bytes(7) + b"[]"},
            "model.safetensors is not a safetensors",
        ),
        (
            {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
            "model.safetensors is a Git LFS pointer",
        ),
        ({"model.safetensors": None, "pytorch_model.bin": b""}, "pytorch_model.bin is empty"),
        (
            {"model.safetensors": None, **SHARDS},
            "model-00002-of-00003.safetensors is missing",
        ),
        (
            {
                "model.safetensors": None,
                **SHARDS,
                "model.safetensors.index.json": json.dumps(INDEX).encode(),
            },
            "other.safetensors is missing",
        ),
    ],
)
def test_each_fault_of_a_folder_is_named(
    tmp_path: Path, change: dict[str, bytes | None], problem: str
) -> None:
    files = {name: data for name, data in (WHOLE | change).items() if data is not None}
    problems = folder_check.find_problems(write(tmp_path / "model", files))
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "my モデル", {})
    done = run(str(folder), tmp_path / "cache")
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.removesuffix("\n")
    assert "\n" not in line
    assert str(folder) in line
    for part in ("config.json", "tokenizer.json", "*.safetensors"):
        assert part in line


@pytest.mark.parametrize(
    "weights",
    [
        {"pytorch_model.bin": b"x"},
        {"model-00001-of-00001.safetensors": safetensors()},
    ],
)
@pytest.mark.parametrize("tokenizer", ["tokenizer.model", "qwen.tiktoken", "vocab.json"])
def test_other_layouts_are_whole_too(
    tmp_path: Path, weights: dict[str, bytes], tokenizer: str
) -> None:
    files = {"config.json": WHOLE["config.json"], tokenizer: b"x", **weights}
    assert folder_check.find_problems(write(tmp_path / "model", files)) == []


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("smollm2-135m", "did you mean smollm2-135m-instruct?"),
        ("llama", "neither a folder, nor a hub id (org/name), nor the built-in"),
        ("", "(empty)"),
        ("/no/such/folder", "there is no such folder"),
        ("./folder", "there is no such folder"),
        (__file__, "is a file"),
    ],
)
def test_what_is_no_model_is_said_in_one_line(tmp_path: Path, model: str, message: str) -> None:
    done = run(model, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
