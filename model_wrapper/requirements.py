"""The pip requirements of a logged model, from the pins that images and ``make`` install as well.

A model is logged with a list that is locked as a whole (``requirements/model-*.txt``) when there is
one for this Python and this MLflow. Otherwise the engine's pins are united with the gateway's needs
and the resolver finds the rest. MLflow is always named in full: serving platforms refuse
``mlflow-skinny``.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENGINES = ("cu124", "cu130", "cpu")
FOLDER = Path(__file__).resolve().parent.parent / "requirements"

# Kernels compiled ahead, on no package index. The Dockerfile names the same file.
FLASHINFER = (
    "flashinfer-python @ https://github.com/flashinfer-ai/flashinfer/releases/download/v0.2.5/"
    "flashinfer_python-0.2.5%2Bcu124torch2.6-cp38-abi3-linux_x86_64.whl"
    "#sha256=43d767b912c0c43a04be99595e0123eab9385fc72530a2874b5fb08e3145c0be"
)
# That list was locked on Python 3.12; these pins of it have no release for 3.11.
_NEED_PYTHON_312 = {"cu130": frozenset({"airportsdata", "networkx", "scipy"})}
_MLFLOW_PARTS = ("mlflow", "mlflow-skinny", "mlflow-tracing")
_COMMENT = re.compile(r"(^|\s)#.*")


def for_model(
    engine: str, python: tuple[int, int] = sys.version_info[:2], mlflow: str | None = None
) -> list[str]:
    """The lines to log a model with.

    Args:
        engine: one of ``ENGINES``. The CPU engine is not among the lines (``cpu_engine.py``).
        python: that the model will run on; MLflow asks for the one that logs.
        mlflow: version to ask for; by default the installed one.
    """
    mlflow = mlflow or version("mlflow")
    lines = locked(engine, python)
    if f"mlflow=={mlflow}" not in lines:
        lines = list(unlocked(engine, mlflow))
    return [*lines, FLASHINFER] if engine == "cu124" else lines


def lock_file(engine: str, python: tuple[int, int]) -> Path:
    """Where the locked list is. What runs on a CPU is the same for every Python."""
    suffix = "" if engine == "cpu" else f"-py{python[0]}{python[1]}"
    return FOLDER / f"model-{engine}{suffix}.txt"


def locked(engine: str, python: tuple[int, int]) -> list[str]:
    """The locked list, or an empty one if there is none."""
    file = lock_file(engine, python)
    lines = _lines(file) if file.exists() else []
    # MLflow pins its own parts; a platform that looks for the name finds only the whole.
    return [line for line in lines if not line.startswith(("mlflow-skinny==", "mlflow-tracing=="))]


def unlocked(engine: str, mlflow: str) -> Iterator[str]:
    """Pins of engine and gateway and MLflow itself, without FlashInfer's wheel."""
    yield f"mlflow=={mlflow}"
    if engine == "cpu":
        yield from _acceptable(_lines(FOLDER / "gateway.txt"))
        return
    only_newer = _NEED_PYTHON_312.get(engine, frozenset())
    yield from _acceptable(_lines(FOLDER / f"engine-{engine}.txt"), only_newer)
    # The engine's pin of a package that both need is the one that holds.
    yield from _lines(FOLDER / "gateway.in")


def _acceptable(pins: list[str], only_newer: frozenset[str] = frozenset()) -> Iterator[str]:
    """The pins that MLflow and any Python can live with; the others are left to the resolver."""
    limits = _mlflow_limits()
    for pin in pins:
        requirement = Requirement(pin)
        name = canonicalize_name(requirement.name)
        (pinned,) = requirement.specifier
        if not all(limit.specifier.contains(pinned.version) for limit in limits.get(name, ())):
            continue
        if name in only_newer:
            pin += ' ; python_version >= "3.12"'
        yield pin


def _mlflow_limits() -> dict[str, list[Requirement]]:
    limits: dict[str, list[Requirement]] = {}
    for part in _MLFLOW_PARTS:
        try:
            lines = requires(part) or []
        except PackageNotFoundError:  # not every release has all parts
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                limits.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return limits


def _lines(file: Path) -> list[str]:
    lines = (_COMMENT.sub("", line).strip() for line in file.read_text("utf-8").splitlines())
    return [line for line in lines if line]
