"""Small model folders for tests, and the script that judges them."""

import json
import os
import subprocess
from pathlib import Path

from app.settings import Settings

ROOT = Path(__file__).parents[2]


def safetensors() -> bytes:
    """The smallest whole weight file: one number."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


WHOLE = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": safetensors(),
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def run(model: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the server does, from a folder where `app` can't be imported."""
    return subprocess.run(
        [
            Settings().find_engine_python(),
            ROOT / "app/models/prepare.py",
            *("--model", model, "--cache", cache),
        ],
        cwd=cache.parent,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
