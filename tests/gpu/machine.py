"""What the figures were measured on."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from app.settings import Settings

_VERSIONS = """
import importlib.metadata, json, platform
names = ("sglang", "torch", "sgl-kernel", "sglang-kernel", "flashinfer-python", "transformers")
found = {"python": platform.python_version()}
for name in names:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_QUERY = "--query-gpu=name,driver_version,memory.total"


def describe(settings: dict[str, str]) -> dict[str, Any]:
    """Hardware, versions and the settings that were given."""
    python = settings.get("ENGINE_PYTHON") or Settings().find_engine_python()
    versions = subprocess.run([str(python), "-c", _VERSIONS], capture_output=True, text=True)
    gpus = "none"
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", _QUERY, "--format=csv,noheader"]
        gpus = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    kept = {name: value for name, value in settings.items() if "KEY" not in name}
    kept |= {name: Path(kept[name]).name for name in ("MODEL", "ENGINE_PYTHON") if name in kept}
    return {
        "gpus": gpus,
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "gateway_python": platform.python_version(),
        "engine": json.loads(versions.stdout or "{}"),
        "settings": kept,
    }
