"""Every dependency has a wheel on each Python and machine that is supported, and what the script takes for missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_wheels"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module; it leaves no compiled file beside itself."""
    spec = spec_from_loader("check_wheels", SourceFileLoader("check_wheels", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


@pytest.mark.slow
@pytest.mark.registry
@pytest.mark.timeout(1800)
def test_all_extras_resolve_to_wheels_on_three_pythons_and_two_machines() -> None:
    """Exit code 0, and a number in each of six cells."""
    command = [sys.executable, str(SCRIPT), "--extra", "all"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
    if done.returncode == 3:
        pytest.skip("no package index within reach")
    assert done.returncode == 0, done.stdout + done.stderr
    row = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"\| all \|( \d+ \(\d+\) \|){6}", row), row


def test_what_a_marker_asks_for_on_the_target_alone_is_missed(script: ModuleType) -> None:
    """pip answers for the Python that runs it: what 3.13 or ARM wants beside is named."""
    wants = ["b", "c-d>=1; platform_machine == 'aarch64'", "e; python_version >= '3.13'", "f; extra == 'x'"]
    report: dict[str, Any] = {
        "install": [{"metadata": {"name": "a", "requires_dist": wants}}, {"metadata": {"name": "B"}}]
    }
    told = {(python, machine): list(script.missing(report, python, machine)) for python, machine in (
        ("3.12", "x86_64"), ("3.12", "aarch64"), ("3.13", "x86_64"))}  # fmt: skip
    assert [len(each) for each in told.values()] == [0, 1, 1]
    assert told["3.12", "aarch64"][0].startswith("a wants c-d>=1")
    report["install"][0]["requested_extras"] = ["x"]
    assert len(list(script.missing(report, "3.12", "x86_64"))) == 1


def test_extras_of_our_own_are_followed(script: ModuleType) -> None:
    """An extra that names others asks for theirs, and for the base."""
    project = {"dependencies": ["base"], "optional-dependencies": {"x": ["stream_occ[y]", "of-x"], "y": ["of-y>=2"]}}
    assert script.requirements(project, "x") == ["base", "of-y>=2", "of-x"]
    assert script.requirements(project, "(base)") == ["base"]
