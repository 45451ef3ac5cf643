"""The code that travels with a logged model: the server, the wrapper, and for a CPU its engine."""

import shutil
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_PACKAGES = ("app", "model_wrapper")
# What cpu_engine.py installs the engine from.
CPU_ENGINE = (
    *("requirements/engine-cpu-torch.txt", "requirements/engine-cpu.txt"),
    *("engine/plaincpu/pyproject.toml", "engine/plaincpu/sglang_plaincpu"),
)
_unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def stage_code(folder: Path, engine: str) -> list[str]:
    """Copy the code into an empty folder; return MLflow's ``code_paths``."""
    copy_code(folder, (*_PACKAGES, *(CPU_ENGINE if engine == "cpu" else ())))
    return [str(path) for path in sorted(folder.iterdir())]


def copy_code(folder: Path, names: Iterable[str]) -> None:
    """Copy files and folders of the repository to the same places in another folder."""
    for name in names:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=_unwanted)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
