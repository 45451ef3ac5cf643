"""A built folder is complete or absent, whatever happens to the builder or to the disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.models import model_store
from app.models.notices import ModelUnavailable
from tests.unit.model_folders import write


def builder(content: bytes, calls: list[Path]) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        calls.append(folder)
        (folder / "weights").write_bytes(content)

    return build


def test_a_folder_is_built_once_and_again_when_damaged_or_outdated(tmp_path: Path) -> None:
    calls: list[Path] = []
    store = tmp_path / "new store" / "models"

    def get(recipe: str) -> bytes:
        folder = model_store.build_once(store, "m", recipe, builder(b"good", calls))
        assert folder == store / "m"
        return (folder / "weights").read_bytes()

    assert [get("1"), get("1")] == [b"good", b"good"]
    assert len(calls) == 1
    for damage in (b"evil", b"", None):  # other bytes of the same length, cut, gone
        if damage is None:
            (store / "m" / "weights").unlink()
        else:
            (store / "m" / "weights").write_bytes(damage)
        assert get("1") == b"good"
    (store / "m" / model_store.MANIFEST).write_text("{")
    assert get("1") == b"good"
    assert len(calls) == 5
    assert get("2") == b"good"
    assert len(calls) == 6
    assert {path.name for path in store.iterdir()} == {"m", ".m.lock"}


def test_a_build_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "weights").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_store.build_once(tmp_path, "m", "1", fail)
    assert {path.name for path in tmp_path.iterdir()} == {".m.lock"}
    # What a killed process could not clean up.
    write(tmp_path / ".m.building", {"weights": b"half", "more": b""})
    folder = model_store.build_once(tmp_path, "m", "1", builder(b"good", []))
    assert {path.name for path in folder.iterdir()} == {"weights", model_store.MANIFEST}


def test_a_store_that_can_not_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelUnavailable, match="MODEL_CACHE names another place"):
        model_store.build_once(tmp_path / "file" / "models", "m", "1", builder(b"", []))
