"""Which weights a logged model gets: copied along, or only named."""

import re
from dataclasses import dataclass
from pathlib import Path

from app.models.folder_check import require_complete
from app.models.notices import ModelUnavailable
from app.settings import DEFAULT_MODEL

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class Weights:
    """Exactly one of a folder to copy and a name to resolve where the model runs."""

    folder: Path | None
    reference: str | None

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return folder_size(self.folder) if self.folder else 0


def find_weights(model: str | None, by_reference: bool) -> Weights:
    """What ``--model`` stands for.

    Args:
        model: folder, hub id or built-in name; the built-in model if it is missing.
        by_reference: name a folder and don't copy it. It may be one that only the serving machine
            sees.

    Raises:
        ModelUnavailable: no such folder, or it is not complete.
    """
    model = model or DEFAULT_MODEL
    folder = Path(model).expanduser()
    if by_reference or model == DEFAULT_MODEL:
        return Weights(None, model)
    if folder.is_dir():
        require_complete(folder, str(folder))
        return Weights(folder.resolve(), None)
    if _HUB_ID.fullmatch(model):
        return Weights(None, model)
    raise ModelUnavailable(
        f"{model} is neither a folder here, nor a hub id (org/name), nor the built-in "
        f"{DEFAULT_MODEL}; for a folder that only the serving machine sees, add --by-reference"
    )


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
