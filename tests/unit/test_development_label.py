"""Figures on recordings that helped to choose the default are called so wherever they are told."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAME = re.compile(r"MobiFall|WEDA-FALL|SP-SW-HAR|sp-sw-har\b(?!\.zip)")
FIGURE = re.compile(r"(?<![\w.])\d*\.\d\d|\d %")


def sections(page: Path) -> list[str]:
    """Parts of a page under headings of the first two levels, each with what is below it."""
    return re.split(r"(?m)^(?=##? )", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_of_development_sets_are_labelled(page: Path) -> None:
    """Issue 4, item 1: where a section names such a set and a figure, it says 'development'."""
    unlabelled = [
        part.partition("\n")[0]
        for part in sections(page)
        if NAME.search(part) and FIGURE.search(part) and "development" not in part.lower()
    ]
    assert unlabelled == []


def test_a_page_with_figures_is_found() -> None:
    """The rule has something to look at: README and results quote both sets."""
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        assert any(NAME.search(part) and FIGURE.search(part) for part in sections(page))
