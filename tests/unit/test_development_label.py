"""Figures on recordings that helped to choose the default are called so wherever they are told."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAME = re.compile(
    r"MobiFall|WEDA-FALL|SP-SW-HAR|SisFall|UMAFall|FallAllD|SmartFallMM|\b(?:sp-sw-har|mobifall|weda-fall)\b(?!\.)"
)
FIGURE = re.compile(r"(?<![\w.])\d*\.\d\d|\d %")
COMMANDS = re.compile(r"(?ms)^ *```.*?^ *```$")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs, lists and tables, without commands, each with what may label it: itself, of a table also its lead."""
    before = ""
    for block in re.split(r"\n\s*\n", COMMANDS.sub("", text)):
        yield block, before + block if block.lstrip().startswith("|") else block
        before = block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_of_development_sets_are_labelled(page: Path) -> None:
    """Issue 4, item 1: a paragraph, list or table that names such a set and a figure says 'development'."""
    unlabelled = [
        block.strip()[:100]
        for block, label in blocks(page.read_text(encoding="utf-8"))
        if NAME.search(block) and FIGURE.search(block) and "development" not in label.lower()
    ]
    assert unlabelled == []


def test_a_block_without_the_word_is_found() -> None:
    """A label elsewhere in the section does not count, one in the sentence before a table does."""
    told = "On MobiFall (development) it is .99.\n\nOn MobiFall it is .98.\n\nAll development:\n\n| MobiFall | .97 |"
    unlabelled = [b for b, label in blocks(told) if NAME.search(b) and "development" not in label.lower()]
    assert unlabelled == ["On MobiFall it is .98."]


def test_a_page_with_figures_is_found() -> None:
    """The rule has something to look at: README and results quote both sets."""
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        text = page.read_text(encoding="utf-8")
        assert any(NAME.search(block) and FIGURE.search(block) for block, _ in blocks(text))
