"""docs/reliability.md has a row for each of the 48 things that users met, and each row names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
NUMBERS = [f"{number:02d}" for number in range(1, 49)]


def rows() -> list[list[str]]:
    """The cells of the table's rows."""
    text = (REPO / "docs" / "reliability.md").read_text()
    section = text.partition("## What users met\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def found_by_number() -> dict[str, set[str]]:
    """Files of the tests named for each number; none of them is skipped or expected to fail."""
    found: dict[str, set[str]] = {}
    for path in sorted((REPO / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_ask_"):
                marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
                assert not re.search(r"skip|xfail", marks), node.name
                numbers = re.match(r"(?:\d\d_)+", node.name.removeprefix("test_ask_"))
                assert numbers is not None, node.name
                for number in re.findall(r"\d\d", numbers[0]):
                    found.setdefault(number, set()).add(path.name.removesuffix(".py"))
    return found


def test_each_number_has_a_test_and_a_row() -> None:
    """1 to 48, in their order; a row names the files in which its tests are."""
    table, found = rows(), found_by_number()
    assert [cells[0].zfill(2) for cells in table] == NUMBERS
    assert sorted(found) == NUMBERS
    for cells in table:
        assert set(re.findall(r"`(\w+)`", cells[-1])) == found[cells[0].zfill(2)], cells[0]
