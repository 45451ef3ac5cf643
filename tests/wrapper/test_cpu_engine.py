"""Installing the CPU engine at first start, with small packages in the place of big ones."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import EngineUnavailable
from app.settings import Settings
from model_wrapper import cpu_engine
from model_wrapper.cpu_engine import ROOT, install, with_engine
from model_wrapper.packaging.code import CPU_ENGINE, stage_code

# What the plugin is built with is among the engine's pins too.
SMALL = "setuptools==81.0.0\nwheel==0.46.3\npackaging==26.0\n"
SEEN = "import six, importlib.metadata as m; print(six.__version__, m.version('sglang-plaincpu'))"


def source(folder: Path, torch: str = "six==1.17.0\n") -> Path:
    """The repository's lists and plugin, with other packages in the lists."""
    stage_code(folder, "cpu")
    (folder / "requirements" / "engine-cpu-torch.txt").write_text(torch, encoding="utf-8")
    (folder / "requirements" / "engine-cpu.txt").write_text(SMALL, encoding="utf-8")
    return folder


def test_everything_it_needs_travels_with_a_model(tmp_path: Path) -> None:
    stage_code(tmp_path, "cpu")
    for name in CPU_ENGINE:
        assert (tmp_path / name).exists()
    before = cpu_engine._fingerprint(tmp_path)
    assert before == cpu_engine._fingerprint(ROOT)
    built = tmp_path / "engine" / "plaincpu" / "build" / "lib" / "copy.py"
    built.parent.mkdir(parents=True)
    built.touch()
    assert cpu_engine._fingerprint(tmp_path) == before


def test_two_at_once_install_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_CPU_INDEX", "")
    code, store = source(tmp_path / "code"), tmp_path / "engines"
    done = []
    real = cpu_engine._install

    def counted(*arguments: Path) -> None:
        done.append(arguments)
        real(*arguments)

    monkeypatch.setattr(cpu_engine, "_install", counted)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: install(code, store), range(2))
    assert first == second
    assert len(done) == 1
    shown = subprocess.run([first, "-c", SEEN], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["1.17.0", "1.0.0"]
    assert not list((code / "engine").rglob("build")), "it must not write into the model's code"


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_CPU_INDEX", (tmp_path / "empty").as_uri())
    code = source(tmp_path / "code", torch="six==1.17.0+cpu\n")
    with pytest.raises(EngineUnavailable, match=r"six==1\.17\.0\+cpu.*TORCH_CPU_INDEX"):
        install(code, tmp_path / "engines")


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineUnavailable, match="MODEL_CACHE"):
        install(ROOT, tmp_path / "file" / "engines")


@pytest.mark.parametrize(
    "settings",
    [
        {"engine_python": Path("/opt/engine/bin/python"), "engine_device": "cpu"},
        {"engine_url": "http://127.0.0.1:1"},
        {"engine_device": "cuda"},
    ],
    ids=["named", "attached", "cuda"],
)
def test_nothing_is_installed_where_it_is_not_needed(settings: dict[str, object]) -> None:
    chosen = Settings(**settings)  # type: ignore[arg-type]
    assert with_engine(chosen) is chosen


def test_it_is_installed_beside_the_model_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    stores = []
    monkeypatch.delenv("ENGINE_PYTHON", raising=False)
    monkeypatch.setattr(Settings, "find_engine_python", lambda _: Path(sys.executable))
    monkeypatch.setattr(
        cpu_engine, "install", lambda source, store: stores.append((source, store)) or python
    )
    settings = Settings(engine_device="cpu", model_cache=tmp_path / "cache" / "models")
    assert with_engine(settings).engine_python == python
    assert stores == [(ROOT, tmp_path / "cache" / "engines")]
