"""`stream-occ dashboard`: what it refuses before it serves anything."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stream_occ.cli import run
from stream_occ.config import load_config
from stream_occ.dashboard import serving
from stream_occ.dashboard.access import Access, hash_password
from stream_occ.errors import UsageError

CONFIG = 'inputs:\n  - pattern: "w/{device}/imu"\n    codec: json\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "people").write_text(f"anna:act:{hash_password('correct horse')}\n")
    path = tmp_path / "ward.yaml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--host 0.0.0.0", "--host: must be of this machine where nobody logs in; got 0.0.0.0."),
        ("--host ::", "--host: must be of this machine where nobody logs in; got ::."),
        ("--host 127.ward.example", "--host: must be of this machine where nobody logs in"),
        ("--proxy-header X-Remote-User", "--proxy-header and --proxy-from: must be given together; got one of them."),
        ("--proxy-header X-User --proxy-from here", "--proxy-from: must be addresses or networks; got here."),
        ("--people people --tls-cert people", "--tls-cert and --tls-key: must be given together; got one of them."),
        ("--people people --tls-cert missing --tls-key people", "--tls-cert: must be an existing file"),
        ("--people missing --host 0.0.0.0", "must be a readable text file; got FileNotFoundError."),
        ("--receiver ward", "--receiver: must be listed in receivers (nobody); got ward."),
    ],
)
def test_what_would_let_anybody_in_or_cannot_be_is_refused(
    options: str, told: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line, with exit code 2."""
    monkeypatch.chdir(config.parent)
    assert run(["dashboard", "-c", str(config), *options.split()]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_certificate_that_is_none_is_refused(config: Path) -> None:
    """Before the page or the broker is reached."""
    where = serving.Where(port=0, cert_file=config, key_file=config)
    history_file = config.with_name("h.history")
    with pytest.raises(UsageError, match=r"--tls-cert and --tls-key: must be a certificate and its key; got .*PEM"):
        serving.run(load_config(config), Access(), where, history_file=history_file, stop=threading.Event())
