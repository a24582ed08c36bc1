"""What the Containerfile says, run step by step in plain folders: no container engine is needed, and none is tested."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.broker import Broker, free_port
from tests.integration.detector import wait_until

REPO = Path(__file__).resolve().parents[2]
PREFIX, STATE, CONFIG = "/opt/stream_occ", "/var/lib/stream_occ", "/etc/stream_occ"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def instructions() -> list[tuple[str, str]]:
    """Name and rest of each line of the Containerfile."""
    lines = (REPO / "Containerfile").read_text().splitlines()
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in pairs]


def only(name: str) -> str:
    """The rest of the only instruction of that name."""
    [rest] = [rest for each, rest in instructions() if each == name]
    return rest


class Image:
    """The folders of the image below one of ours, and the Containerfile's commands with their paths moved there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.health_port = free_port()

    def moved(self, text: str) -> str:
        """The text with the image's paths, and the port of /health, in place here."""
        for path in (PREFIX, STATE, CONFIG):
            text = text.replace(path, f"{self.root}{path}")
        text = text.replace("/src/", f"{self.root}/src/").replace(":9464/", f":{self.health_port}/")
        return text if os.geteuid() == 0 else text.replace("-o 10001 -g 10001 ", "")

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """A command in the environment of the image."""
        return subprocess.run(words, env=self.env(), capture_output=True, text=True, timeout=600, check=False)

    def env(self) -> dict[str, str]:
        """That of the container: nothing of ours but where packages come from, and the port of /health."""
        kept = {"PATH", "HOME", "LANG", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}
        ours = {name: value for name, value in os.environ.items() if name in kept or name.startswith("PIP_")}
        theirs = dict(rest.split("=", 1) for name, rest in instructions() if name == "ENV")
        theirs = {name: self.moved(value) for name, value in theirs.items()}
        return {**ours, "PYTHON": sys.executable, **theirs, "STREAM_OCC__HTTP__PORT": str(self.health_port)}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Built as the Containerfile says: what .containerignore leaves is copied, then its RUN steps, as they stand."""
    built = Image(tmp_path_factory.mktemp("image"))
    ignored = (REPO / ".containerignore").read_text().splitlines()
    for name in (line[1:] for line in ignored if line.startswith("!")):
        source, target = REPO / name, built.root / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=lambda _, names: [n for n in names if fnmatch(n, "__pycache__")])
        else:
            shutil.copy2(source, target)
    (built.root / CONFIG.lstrip("/")).mkdir(parents=True)
    for step in [rest for name, rest in instructions() if name == "RUN"]:
        done = built.run(shlex.split(built.moved(step)))
        if done.returncode != 0 and "Could not find a version" in done.stderr:
            pytest.skip("no package index within reach: what the image is made of cannot be installed")
        assert done.returncode == 0, done.stdout + done.stderr
    return built


@pytest.fixture
def container(image: Image, broker: Broker, model_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The entry point with its command, beside a real broker."""
    folder = Path(f"{image.root}{CONFIG}")
    shutil.copy(model_file, folder / "model.occ")
    content: dict[str, Any] = {
        "mqtt": {"host": "127.0.0.1", "port": broker.port},
        "model": "model.occ",
        "inputs": [{"pattern": "wearables/{device}/imu", "codec": "json"}],
    }
    (folder / "edge.yaml").write_text(yaml.safe_dump(content))
    words = [image.moved(word) for word in json.loads(only("ENTRYPOINT")) + json.loads(only("CMD"))]
    with (image.root / "stdout").open("wb") as out, (image.root / "stderr").open("wb") as err:
        process = subprocess.Popen(words, env=image.env(), cwd=f"{image.root}{STATE}", stdout=out, stderr=err)
    yield process
    process.kill()
    process.wait(10)


def test_image_holds_the_versions_of_the_lock_and_no_installer(image: Image) -> None:
    """What is installed is service.lock and ourselves, no pip, no setuptools, no broker."""
    listing = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"
    done = image.run([f"{image.root}{PREFIX}/bin/python", "-I", "-c", listing])
    lock = (REPO / "service.lock").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lock if line[:1].isalpha()}
    assert set(done.stdout.lower().replace("_", "-").split()) == pinned | {"stream-occ"}
    assert "mosquitto" not in (REPO / "Containerfile").read_text()


def test_entry_point_runs_is_healthy_and_stops_in_order(image: Image, container: subprocess.Popen[bytes]) -> None:
    """ENTRYPOINT with CMD gets ready, the health check passes, SIGTERM ends it with 0, and the check fails then."""
    told = image.root / "stdout"
    wait_until(lambda: b"ready:" in told.read_bytes() or container.poll() is not None, "ready", 60)
    assert container.poll() is None, (image.root / "stderr").read_text()
    check = [image.moved(word) for word in json.loads(only("HEALTHCHECK").partition("CMD ")[2])]
    assert image.run(check).returncode == 0
    container.terminate()
    assert container.wait(30) == 0
    assert image.run(check).returncode != 0
    assert list(Path(f"{image.root}{STATE}").glob("*.db"))


def test_it_runs_as_a_user_with_a_number_alone_on_a_slim_debian() -> None:
    """USER is not root and is set before the entry point; the base is Debian slim with the Python that is tested."""
    assert only("USER") == "10001:10001"
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert {rest.split()[0] for name, rest in instructions() if name == "FROM"} == {
        "docker.io/library/python:3.11-slim-bookworm"
    }
