"""Several API keys, some from a file that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.gateway.keys import KeyRing


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "keys"
    found.write_text("# the team\none\n\n  two-鍵  \n", encoding="utf-8")
    return found


def test_all_of_them_pass(file: Path) -> None:
    keys = KeyRing("fixed", file)
    owners = {keys.owner(key.encode()) for key in ("fixed", "one", "two-鍵")}
    assert len(owners) == 3
    assert None not in owners
    assert not any("one" in str(owner) for owner in owners)
    for other in (b"", b"# the team", b"on", b"one ", b"ONE", b"two"):
        assert keys.owner(other) is None


def test_a_changed_file_is_read_again(file: Path) -> None:
    clock = Clock()
    keys = KeyRing(None, file, clock=clock)
    file.write_text("three\n")
    assert keys.owner(b"one")  # not looked at again within the same second
    clock.now = 1
    assert keys.owner(b"three")
    assert keys.owner(b"one") is None


@pytest.mark.parametrize("damage", ["gone", "empty", "comments", "binary", "blank inside"])
def test_a_damaged_file_neither_opens_nor_locks(
    damage: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    keys = KeyRing(None, file, clock=clock)
    if damage == "gone":
        file.unlink()
    else:
        content = {"comments": b"# one\n", "binary": b"\xff\xfe\x00", "blank inside": b"a key\n"}
        file.write_bytes(content.get(damage, b""))
    clock.now = 1
    assert keys.owner(b"one")
    assert keys.owner(b"") is None
    assert keys.owner(b"# one") is None
    assert "the keys before stay" in caplog.text
    assert "a key" not in caplog.text
    file.write_text("mended\n")
    clock.now = 2
    assert keys.owner(b"mended")
    assert keys.owner(b"one") is None


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"a b\n"])
def test_it_does_not_start_with_a_file_without_keys(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="key"):
        KeyRing("fixed", file)


def test_it_does_not_start_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="keys"):
        KeyRing("fixed", tmp_path / "keys")
