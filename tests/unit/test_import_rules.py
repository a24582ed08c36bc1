"""Who may import what: the running service stays small, and no module escapes the layers of pyproject.toml."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
NOT_FOR_THE_SERVICE = {
    "scipy",
    "sklearn",
    "pandas",
    "river",
    "joblib",
    "matplotlib",
    "numba",
    "threadpoolctl",
    "iotcore",
    "apprise",
    "requests",
}

IMPORT_ALL = r"""
import importlib, json, pkgutil, re, sys
names = {names!r}
for package in {packages!r}:
    found = importlib.import_module(package)
    names += [f"{{package}}.{{info.name}}" for info in pkgutil.iter_modules(found.__path__)]
for name in names:
    importlib.import_module(name)
top = sorted({{name.partition(".")[0] for name in sys.modules}})
kb = re.search(r"VmRSS:\s+(\d+) kB", open("/proc/self/status").read())  # ru_maxrss would be that of the test's process
print(json.dumps({{"top": top, "mb": int(kb[1]) / 1024}}))
"""


@pytest.fixture(scope="module")
def service_process() -> dict[str, object]:
    """Top-level names and peak memory of a process that imports all that `detect` may import."""
    code = IMPORT_ALL.format(
        names=["stream_occ.running", "stream_occ.cli.detect", "stream_occ.artifacts", "stream_occ.checkpoint"],
        packages=["stream_occ.codecs", "stream_occ.scoring", "stream_occ.features", "stream_occ.sinks"],
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_running_service_imports_no_training_library(service_process: dict[str, object]) -> None:
    """Every codec, scorer and feature set that a model file or a configuration may name needs numpy alone."""
    assert NOT_FOR_THE_SERVICE.isdisjoint(service_process["top"])


def test_the_running_service_is_small(service_process: dict[str, object]) -> None:
    """Its imports stay below 100 MB resident (measured 55 to 75 MB on x86-64; scikit-learn alone adds 100 MB)."""
    assert service_process["mb"] < 100


def contracts() -> list[dict[str, object]]:
    """The import rules of pyproject.toml."""
    return tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def layers() -> set[str]:
    """Modules that the layers contract names."""
    [contract] = [entry for entry in contracts() if entry["type"] == "layers"]
    names = {name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")}
    return {name for name in names if name.count(".") <= 1}  # parts of a package may have layers of their own


def test_every_module_stands_in_a_layer() -> None:
    """A new top-level module has to say where it stands, and a layer names a module that exists."""
    files = [
        path for path in (REPO / "stream_occ").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    modules = {f"stream_occ.{path.stem}" for path in files if path.stem not in ("__init__", "__main__")}
    assert layers() == modules | {"simulators"}


def test_every_module_but_one_is_kept_from_the_mqtt_client() -> None:
    """A new top-level module comes under the rule too."""
    [contract] = [entry for entry in contracts() if entry.get("forbidden_modules") == ["paho"]]
    assert set(contract["source_modules"]) == layers() - {"stream_occ.mqtt"}
