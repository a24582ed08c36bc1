"""docs/reliability.md has a row for each of the 48 things that users met, and each row names tests that are there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("ci", "code"), [({"CI": "true"}, 1), ({}, 0)])
def test_such_a_test_that_is_skipped_fails_in_ci(tmp_path: Path, ci: dict[str, str], code: int) -> None:
    """Also by a fixture; elsewhere a broker may be missing."""
    path = tmp_path / "test_made_up.py"
    path.write_text(
        "import pytest\n@pytest.fixture\ndef broker():\n    pytest.skip('no broker')\n"
        "def test_ask_99_x(broker):\n    pass\ndef test_other(broker):\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    ended = subprocess.run(
        [*command, str(path)], cwd=REPO, env=environment | ci, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == code, ended.stdout
    assert ("1 skipped, 1 error" if code else "2 skipped") in ended.stdout
