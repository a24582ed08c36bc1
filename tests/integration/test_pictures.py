"""Pictures of docs/how-it-works.md and docs/gallery.md are what the script and the programs there draw."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.detector import REPO

DOCS = REPO / "docs"


@pytest.mark.slow
def test_pictures_are_drawn_by_the_script(tmp_path: Path) -> None:
    """The ratio's to the byte; the fall, after training, ends as the page says; the gallery's programs run."""
    subprocess.run([sys.executable, str(REPO / "scripts" / "make_pictures.py"), str(tmp_path)], cwd=REPO, check=True)
    ratio, fall = "how-it-works-ratio.svg", "how-it-works-fall.svg"
    assert (tmp_path / ratio).read_bytes() == (DOCS / ratio).read_bytes()
    gallery = re.findall(r"savefig\(\"(.*?)\"\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert len(gallery) == 3
    for name in gallery:
        assert {ElementTree.parse(folder / name).getroot().tag.rpartition("}")[2] for folder in (tmp_path, DOCS)} == {
            "svg"
        }
    for folder in (tmp_path, DOCS):
        words = " ".join(ElementTree.parse(folder / fall).getroot().itertext())
        assert re.search(r"suspected at .*checking at .*pending at .*alarm at", words)


def test_b_lies_four_times_as_far_and_is_accepted() -> None:
    """What the page says of the two points is what is written below them."""
    words = " ".join(ElementTree.parse(DOCS / "how-it-works-ratio.svg").getroot().itertext())
    found = re.findall(r"([AB]): ([\d.]+) to .*? at ([\d.]+); ratio ([\d.]+): (\w+)", words)
    (_, near, own, ratio, first), (_, far, far_own, _, second) = found
    assert (first, second) == ("rejected", "accepted")
    assert float(far) / float(near) == pytest.approx(4, abs=0.2)
    assert float(far) < float(far_own)
    assert float(ratio) > 10 > 1 > float(own)
