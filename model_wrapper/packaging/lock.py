"""Resolves the pip requirements of logged models: ``python -m model_wrapper.packaging.lock``.

``make lock`` runs it after the other lists. It needs uv, and changes no pin that need not change.
FlashInfer's wheel is left out: it has no dependency that is not pinned, and comes from a host that
not everybody reaches (``requirements.FLASHINFER`` is added when a model is logged).
"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from model_wrapper.requirements import ENGINES, lock_file, unlocked

PYTHONS = ((3, 11), (3, 12))
_HEADER = """\
# What a model logged with --engine {engine} asks for{python}. Made by `make lock`.
"""


def main() -> None:
    """Write every list."""
    for engine, python in targets():
        file = lock_file(engine, python)
        before = file.read_text("utf-8") if file.exists() else ""
        file.write_text(resolved(engine, python, before), encoding="utf-8")


def targets() -> list[tuple[str, tuple[int, int]]]:
    """Which lists there are: for a CPU one for all Pythons."""
    cases = [(engine, python) for engine in ENGINES for python in PYTHONS]
    return [case for case in cases if case[0] != "cpu" or case[1] == PYTHONS[0]]


def resolved(engine: str, python: tuple[int, int], before: str) -> str:
    """The text of one list.

    Args:
        engine: one of ``ENGINES``.
        python: the Python to resolve for, with the CPU the oldest one.
        before: an earlier text, whose pins are kept where they still fit.

    Raises:
        RuntimeError: the requirements contradict each other; uv's explanation is in it.
    """
    release = f"{python[0]}.{python[1]}"
    platform = (
        ["--universal"] if engine == "cpu" else ["--python-platform", "x86_64-manylinux_2_35"]
    )
    scratch = lock_file(engine, python).with_suffix(".new")
    scratch.write_text(before, encoding="utf-8")
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "-"),
                *("--python-version", release, *platform, "--output-file", str(scratch)),
                *("--no-header", "--annotation-style", "line"),
            ],
            input="\n".join(unlocked(engine, version("mlflow"))),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{engine} on Python {release}: {done.stderr}")
        pins = Path(scratch).read_text("utf-8")
    finally:
        scratch.unlink()
    where = "" if engine == "cpu" else f" on Python {release}"
    return _HEADER.format(engine=engine, python=where) + pins


if __name__ == "__main__":
    main()
