"""service.lock: the service's dependencies, whole, pinned and with digests, and what pyproject.toml asks for."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parents[2]
LOCK = (REPO / "service.lock").read_text()
PINNED = {
    canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+) \\$", LOCK, re.MULTILINE)
}
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
WANTED = [Requirement(text) for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["codecs"])]


def test_every_dependency_of_the_service_is_pinned_to_a_version_that_it_asks_for() -> None:
    """Base and codecs; raise a bound in pyproject.toml, and the lock is to be made anew."""
    wrong = [str(each) for each in WANTED if PINNED.get(canonicalize_name(each.name), "0") not in each.specifier]
    assert wrong == []


def test_what_the_dependencies_need_is_pinned_too() -> None:
    """As far as they are installed here, by their own word."""
    missing = set()
    for name in PINNED:
        try:
            needed = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:
            continue
        missing |= {
            f"{each.name} of {name}"
            for each in needed
            if (each.marker is None or each.marker.evaluate({"extra": ""}))
            and canonicalize_name(each.name) not in PINNED
        }
    assert missing == set()


def test_every_pin_has_digests_and_nothing_names_a_place() -> None:
    """Whoever installs says from where; what comes must be what was tested."""
    entries = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(PINNED)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "//" not in LOCK
    assert not re.search(r"^-", LOCK, re.MULTILINE)


@pytest.mark.skipif(
    "STREAM_OCC_LOCKED" not in os.environ, reason="scripts/test installs the lock; others what they like"
)
def test_tests_run_with_the_versions_of_the_lock() -> None:
    """Each of them, and no other: what is installed here is what users are told to install."""
    assert {name: version(name) for name in PINNED} == PINNED
