"""The files of tests/corpus: seeds in the shapes of real messages, written by us, and whatever was once a finding."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def seeds_of(target: str) -> dict[str, bytes]:
    """Name -> content."""
    folder = CORPUS / target
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))} if folder.is_dir() else {}
