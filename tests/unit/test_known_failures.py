"""docs/known-failures.md names tests that exist, or says why there is none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "known-failures.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and "](http" in line
]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_named_test_exists(file: str, name: str) -> None:
    assert name in functions(ROOT / file)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_each_report_is_held_by_a_test_or_by_a_reason(row: list[str]) -> None:
    what, source, held = row
    assert what
    assert re.fullmatch(r"\[[^]]+\]\(https://\S+\)", source)
    assert "::test_" in held or len(held) > 40


def test_no_test_is_named_that_the_rows_do_not_have() -> None:
    assert len(ROWS) > 50
    assert TEXT.count("`tests/") == sum(row[2].count("`tests/") for row in ROWS) + 1
