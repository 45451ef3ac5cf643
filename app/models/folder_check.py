"""Tells whether a folder is a complete Hugging Face model, before an engine spends a minute on it.

An engine answers a missing or half-copied file with a stack trace from deep inside; this names it.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from app.models.notices import ModelUnavailable
else:
    from notices import ModelUnavailable

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "tiktoken.model",
    "vocab.json",
)
WEIGHT_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<total>\d+)(?P<suffix>\.\w+)")
_LFS_POINTER = b"version https://git-lfs"


def require_complete(folder: Path, name: str) -> None:
    """Do nothing for a complete model folder.

    Args:
        folder: where the model should be.
        name: what the message calls it.

    Raises:
        ModelUnavailable: listing everything that is missing or damaged, not only the first find.
    """
    problems = find_problems(folder)
    if problems:
        raise ModelUnavailable(f"{name} is not a complete model folder: {'; '.join(problems)}")


def find_problems(folder: Path) -> list[str]:
    """List what is missing from `folder` or broken in it; empty for a complete model."""
    return [
        *_config_problems(folder / "config.json"),
        *_tokenizer_problems(folder),
        *_weight_problems(folder),
    ]


def _config_problems(config: Path) -> list[str]:
    if not config.is_file():
        return ["config.json is missing"]
    try:
        content = json.loads(config.read_bytes())
    except ValueError:
        return ["config.json is not JSON"]
    if not isinstance(content, dict) or not {"architectures", "model_type"} & content.keys():
        return ["config.json names no architecture"]
    return []


def _tokenizer_problems(folder: Path) -> list[str]:
    if any((folder / name).is_file() for name in TOKENIZER_FILES) or any(folder.glob("*.tiktoken")):
        return []
    return [f"a tokenizer is missing ({', '.join(TOKENIZER_FILES)})"]


def _weight_problems(folder: Path) -> list[str]:
    weights = {path.name: path for path in sorted(folder.glob("*.safetensors"))}
    if not weights:
        weights = {path.name: path for path in sorted(folder.glob("*.bin"))}
    missing = sorted(_expected_shards(folder, list(weights)) - weights.keys())
    problems = [f"{name} is missing" for name in missing]
    if not weights and not missing:
        problems.append("the weights are missing (*.safetensors or *.bin)")
    for name, path in weights.items():
        fault = _fault(path)
        if fault:
            problems.append(f"{name} {fault}")
    return problems


def _expected_shards(folder: Path, present: list[str]) -> set[str]:
    """Name the weight files that there must be: by the index, else by the numbers in the names."""
    for name in WEIGHT_INDEXES:
        try:
            return set(json.loads((folder / name).read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    expected: set[str] = set()
    for file_name in present:
        shard = _SHARD.fullmatch(file_name)
        if shard:
            stem, number, total, suffix = shard.group("stem", "number", "total", "suffix")
            expected.update(
                f"{stem}-{index:0{len(number)}d}-of-{total}{suffix}"
                for index in range(1, int(total) + 1)
            )
    return expected


def _fault(weights: Path) -> str | None:
    """Say what is wrong with one weight file, judging by its first bytes and its length."""
    size = weights.stat().st_size
    with weights.open("rb") as file:
        start = file.read(8)
        if start and _LFS_POINTER.startswith(start):
            return "is a Git LFS pointer, not the file (run `git lfs pull`)"
        if weights.suffix != ".safetensors":
            return None if size else "is empty"
        # A safetensors file: length of the header, the header, then the data that it describes.
        header_length = int.from_bytes(start, "little")
        if len(start) < 8 or header_length > size - 8:
            return "is cut short"
        try:
            header = json.loads(file.read(header_length))
            end = max(entry["data_offsets"][1] for key, entry in header.items() if key[0] != "_")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "is not a safetensors file"
    return None if size == 8 + header_length + end else "is cut short"
