"""Folders that are built once and then only read: complete or absent, also after a crash.

A folder is built under another name and renamed when it is finished; a manifest inside lists the
SHA-256 of every file, so that a damaged folder is noticed and built again. A lock file lets two
servers start at the same moment.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from app.models.notices import ModelUnavailable, say
else:
    from notices import ModelUnavailable, say

MANIFEST = "manifest.json"


def build_once(store: Path, name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `name` in `store`, building it unless an intact one is there.

    Args:
        store: folder of all built folders; made if need be.
        name: of this folder.
        recipe: says what the content is made from and how; another recipe builds anew.
        build: fills the empty folder that it is given.

    Raises:
        ModelUnavailable: `store` can't be written to.
    """
    folder = store / name
    if is_intact(folder, recipe):
        return folder
    # Only a build needs it; it comes with the engine.
    from filelock import FileLock, Timeout

    try:
        store.mkdir(parents=True, exist_ok=True)
        lock = FileLock(store / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is preparing {name}; waiting for it")
            lock.acquire()
        try:
            if not is_intact(folder, recipe):
                _rebuild(folder, recipe, build)
        finally:
            lock.release()
    except OSError as error:
        raise ModelUnavailable(
            f"the model folder {folder} can't be written ({error.strerror or error}); "
            "MODEL_CACHE names another place"
        ) from error
    return folder


def is_intact(folder: Path, recipe: str) -> bool:
    """Whether `folder` was built by `recipe` and every file is still what was written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        return bool(manifest["recipe"] == recipe) and all(
            sha256(folder / file_name) == checksum
            for file_name, checksum in manifest["sha256"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def sha256(file: Path) -> str:
    """Hex SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _rebuild(folder: Path, recipe: str, build: Callable[[Path], None]) -> None:
    """Build beside `folder`, then put the result in its place; the lock is held."""
    if folder.exists():
        say(f"{folder} is damaged or outdated; building it again")
    building = folder.with_name(f".{folder.name}.building")
    replaced = folder.with_name(f".{folder.name}.replaced")
    for leftover in (building, replaced):  # of a process that was killed
        if leftover.exists():
            shutil.rmtree(leftover)
    building.mkdir()
    try:
        build(building)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(building)
        raise
    checksums = {path.name: sha256(path) for path in sorted(building.iterdir())}
    manifest = {"recipe": recipe, "sha256": checksums}
    (building / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    if folder.exists():
        folder.rename(replaced)
    building.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
