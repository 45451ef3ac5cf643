"""Installs the engine for a CPU at a model's first start, if nothing on the machine has it.

SGLang's own metadata asks for a CUDA build of torch, so what runs on a CPU can't be written as pip
requirements of a logged model. The pins travel in the model's code instead and are installed here
as ``make .venv-engine`` does it: an environment of its own, every package named, ``--no-deps``. It
is kept beside the model cache and shared by all models with the same pins.
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from app.errors import EngineUnavailable
from app.settings import Settings, environment_of

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parent.parent
_TORCH = "requirements/engine-cpu-torch.txt"
_PINS = "requirements/engine-cpu.txt"
_PLUGIN = "engine/plaincpu"
TORCH_INDEX = "TORCH_CPU_INDEX"
_DEFAULT_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


def with_engine(settings: Settings) -> Settings:
    """The settings, with an interpreter that has SGLang if one had to be installed.

    Raises:
        EngineUnavailable: it could not be installed; the message says what to do.
    """
    if settings.engine_url or settings.engine_python or settings.resolve_device() != "cpu":
        return settings
    found = settings.find_engine_python()
    if found != Path(sys.executable) or find_spec("sglang") or not (ROOT / _PINS).exists():
        return settings
    python = install(ROOT, settings.model_cache.parent / "engines")
    return settings.model_copy(update={"engine_python": python})


def install(source: Path, store: Path) -> Path:
    """Install the pins once; return the environment's interpreter.

    Args:
        source: folder with the lists and the plugin, laid out as in the repository.
        store: folder of all such environments.
    """
    folder = store / _fingerprint(source)
    python = folder / "bin" / "python"
    complete = folder / "installed"
    if complete.exists():
        return python
    try:
        store.mkdir(parents=True, exist_ok=True)
        with FileLock(store / f".{folder.name}.lock"):
            if not complete.exists():
                log.warning("installing the engine for a CPU into %s: once, some minutes", folder)
                _install(source, folder, python)
                complete.touch()
    except OSError as error:
        raise EngineUnavailable(
            f"The engine can't be installed into {store} ({error.strerror or error}): MODEL_CACHE "
            "names another place, ENGINE_PYTHON an environment that has SGLang."
        ) from error
    return python


def _install(source: Path, folder: Path, python: Path) -> None:
    if folder.exists():  # of a process that was killed
        shutil.rmtree(folder)
    _run([sys.executable, "-m", "venv", str(folder)], "Python's venv")
    pip = [str(python), "-m", "pip", "install", "--no-compile", "--no-deps"]
    _install_torch([*pip, "-r", str(source / _TORCH)])
    _run([*pip, "-r", str(source / _PINS)], "pip")
    # Building writes into the source, and a model's code may be read-only.
    with tempfile.TemporaryDirectory() as scratch:
        plugin = shutil.copytree(source / _PLUGIN, Path(scratch, "plugin"))
        _run([*pip, "--no-build-isolation", str(plugin)], "pip")


def _install_torch(command: list[str]) -> None:
    """From PyTorch's index of CPU builds or a mirror of it; else from pip's own index."""
    index = os.environ.get(TORCH_INDEX, _DEFAULT_TORCH_INDEX)
    if index:
        try:
            # Few retries: a site without that index must not wait for minutes.
            _run([*command, "--retries", "1", "--timeout", "20", "--index-url", index], "pip")
        except EngineUnavailable:
            log.warning("no CPU build of torch at %s; trying pip's own index", index)
        else:
            return
    try:
        _run(command, "pip")
    except EngineUnavailable as error:
        raise EngineUnavailable(
            f"{error.message} {TORCH_INDEX} names an index that has this CPU build of torch."
        ) from None


def _run(command: list[str], program: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment_of(),
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or ["no output"]
        log.error("%s", "\n".join(lines[-20:]))
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise EngineUnavailable(f"The engine can't be installed: {program} says: {errors[-1]}.")


def _fingerprint(source: Path) -> str:
    """A name for an environment that is made of exactly this, for this Python."""
    digest = sha256(f"{sys.version_info[:2]} {sys.platform}".encode())
    # Only its own files: building it leaves copies beside them.
    plugin = source / _PLUGIN
    code = sorted((plugin / "sglang_plaincpu").rglob("*.py"))
    for file in (source / _TORCH, source / _PINS, plugin / "pyproject.toml", *code):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
