"""The engines that a validation has started: how many run, and what they work on.

A validation has a temporary folder of its own, which every process it starts inherits in
``TMPDIR``. That tells its engines from all others of the machine.
"""

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

_ENGINE = "sglang.launch_server"
_RUNNING = re.compile(r"^sglang:num_running_reqs(?:\{[^}]*\})? +([\d.eE+]+)", re.MULTILINE)


def running_engines(folder: Path) -> list[int]:
    """Process ids of engines whose temporary folder is ``folder``."""
    mark = f"TMPDIR={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if _ENGINE in arguments and mark in environment:
            found.append(int(process.name))
    return found


def engine_url(folder: Path, config: dict[str, object]) -> str | None:
    """Where the engine listens, if that can be found out."""
    if attached := os.environ.get("ENGINE_URL") or config.get("engine_url"):
        return str(attached).rstrip("/").removesuffix("/v1")
    for state in folder.glob("*/*.json"):
        try:
            return str(json.loads(state.read_text("utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def running_requests(url: str) -> int | None:
    """Requests that the engine works on, or None if it does not tell."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:  # noqa: S310
            found = _RUNNING.search(answer.read().decode("utf-8", "replace"))
    except OSError:
        return None
    return int(float(found[1])) if found else None


def wait_until(holds: Callable[[], object], seconds: float) -> bool:
    """Whether something comes true within a time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
