"""What is built is whole: wheel and sdist, and the wheel alone, in an empty environment, runs the demo elsewhere."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(REPO)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def one(folder: Path, pattern: str) -> Path:
    """The only file of that name."""
    [path] = folder.glob(pattern)
    return path


def test_wheel_holds_what_commands_need_by_default(built: Path) -> None:
    """Modules, simulators, profiles and the type marker are in it; tests and recordings are not."""
    names = set(zipfile.ZipFile(one(built, "*.whl")).namelist())
    wanted = {"stream_occ/py.typed", "simulators/py.typed", "stream_occ/cli/demo.py", "stream_occ/configs/edge.yaml"}
    page = {f"stream_occ/dashboard/page/{name}" for name in ("index.html", "page.css", "page.js", "icon.svg")}
    profiles = {f"stream_occ/configs/profiles/{path.name}" for path in (REPO / "configs/profiles").glob("*.yaml")}
    assert profiles
    assert (wanted | profiles | page) <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"stream_occ", "simulators"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_sdist_holds_what_a_developer_needs(built: Path) -> None:
    """Tests, configurations, documentation and the test command are in it."""
    with tarfile.open(one(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "scripts/test", "configs/edge.yaml", "docs/topics.md", "tests/conftest.py"}
    wanted |= {"Containerfile", ".containerignore", "service.lock"}
    assert wanted <= names


def test_wheel_with_its_demo_extra_runs_the_demo_from_another_folder(built: Path, tmp_path: Path) -> None:
    """An empty environment, plain pip, `stream-occ demo`; the sources are out of reach."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    bin_folder = tmp_path / "venv" / "bin"
    pip = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*pip, f"{one(built, '*.whl')}[demo]"], capture_output=True, text=True, check=False)
    if done.returncode != 0 and "Could not find a version" in done.stderr:
        pytest.skip("no package index within reach: the wheel's dependencies cannot be installed")
    assert done.returncode == 0, done.stderr
    (tmp_path / "elsewhere").mkdir()
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(bin_folder / "stream-occ"), "demo", "--minutes", "0.3", "--broker", "iotcore", "--json", "out.json"]
    done = subprocess.run(
        command, cwd=tmp_path / "elsewhere", env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "elsewhere" / "out.json").read_text())
    assert result["falls_simulated"] == 6
    assert result["falls_flagged"] >= 5
    told = subprocess.run([str(bin_folder / "stream-occ"), "--version"], capture_output=True, text=True, check=True)
    assert f"stream_occ-{told.stdout.split()[1]}-" in one(built, "*.whl").name
    where = [str(bin_folder / "python"), "-c", "import stream_occ; print(stream_occ.__file__)"]
    found = subprocess.run(where, cwd=tmp_path / "elsewhere", env=env, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "venv")
