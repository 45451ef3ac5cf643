"""A model of which only the shape counts."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path


def with_weights(settings: dict[str, str]) -> str:
    """MODEL; with ``--load-format dummy`` a copy that has a stand-in for weights, if it lacks them.

    The server does not start an engine for a folder without weights.
    """
    model = settings.get("MODEL", "smollm2-135m-instruct")
    folder = Path(model)
    if "dummy" not in shlex.split(settings.get("ENGINE_ARGS", "")) or not folder.is_dir():
        return model
    if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
        return model
    copy = Path(tempfile.mkdtemp()) / folder.name
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).symlink_to(file.resolve())
    (copy / "pytorch_model.bin").write_bytes(b"never read")
    return str(copy)
