"""Where the benchmark keeps what it makes: virtual environments, the rig, logs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class CannotMeasureError(Exception):
    """A peer can't be measured on this machine; the text says why."""


def folder(name: str) -> Path:
    """A folder under ``.bench``, or under BENCH_DIR, made when it is missing."""
    path = Path(os.environ.get("BENCH_DIR", ROOT / ".bench")).absolute() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def python_of(environment: str | None) -> Path:
    """The Python that runs a peer.

    Args:
        environment: X for the packages of ``requirements/bench-X.txt``, installed now if they are
            not yet; None for the environment that the benchmark itself runs in.

    Raises:
        CannotMeasureError: the packages can't be installed.
    """
    if environment is None:
        return Path(sys.executable)
    pins = ROOT / "requirements" / f"bench-{environment}.txt"
    home = folder("venv") / environment
    python = home / "bin" / "python"
    installed = home / "installed"  # a copy of the pins, so that changed ones are noticed
    if not installed.is_file() or installed.read_bytes() != pins.read_bytes():
        print(f"installing {pins.name} ...", flush=True)
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        _run([*uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)])
        installed.write_bytes(pins.read_bytes())
    return python


def build_rig() -> Path:
    """Compile the scripted engine and the load client, if they changed; the folder they are in.

    Raises:
        CannotMeasureError: there is no compiler, or it failed.
    """
    out = folder("rig")
    _run(["make", "--silent", "-C", str(ROOT / "bench" / "rig"), f"OUT={out}"])
    return out


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotMeasureError(str(error)) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise CannotMeasureError(f"`{Path(command[0]).name} ...` failed: {' '.join(lines[-3:])}")
