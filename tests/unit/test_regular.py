"""A pipe in place of a file is refused at once, wherever one may be named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_occ.artifacts import load_model, read_key
from stream_occ.config import check_config
from stream_occ.errors import DataError, StreamOccError
from stream_occ.regular import open_regular
from stream_occ.showing import read_alert
from stream_occ.store import Store
from stream_occ.training.config import load_training_config


def config_error(path: Path) -> None:
    """As config check does."""
    loaded, problems = check_config(path, {})
    assert loaded is None
    raise problems[0]


def secret_error(path: Path) -> None:
    """The pipe holds the password."""
    config = path.with_name("c.yaml")
    config.write_text(f'inputs: [{{pattern: "a/{{device}}"}}]\nmqtt: {{username: u, password_file: {path}}}\n')
    config_error(config)


@pytest.mark.parametrize(
    "read", [config_error, secret_error, load_training_config, load_model, read_key, read_alert, Store]
)
def test_pipe_that_nobody_writes_to_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    """It would be waited for, for ever."""
    path = tmp_path / "f"
    os.mkfifo(path)
    with pytest.raises(StreamOccError, match=r"must be|must hold"):
        read(path)


def test_pipe_as_the_lock_of_a_state_file_is_refused(tmp_path: Path) -> None:
    """The service would wait for whoever reads it."""
    os.mkfifo(tmp_path / "s.db.lock")
    with pytest.raises(DataError, match="must be a file; got a pipe, socket or device"):
        Store(tmp_path / "s.db")


def test_files_are_read_and_folders_and_devices_are_not(tmp_path: Path) -> None:
    """By the errors of the system."""
    (tmp_path / "a").write_bytes(b"abc")
    with open_regular(tmp_path / "a") as file:
        assert file.read() == b"abc"
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(OSError, match="a pipe, socket or device"):
        open_regular("/dev/zero")
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "b")
