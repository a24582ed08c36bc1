"""Certificates and passwords of brokers under test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def certify(folder: Path, name: str, authority: str, *names: str, options: tuple[str, ...] = ("-nodes",)) -> None:
    """name.key and name.pem, CN=name, for subject alternative `names`; signed by an authority, or by itself as one."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl not found on PATH")
    is_authority = name == authority
    sign = [] if is_authority else ["-CA", f"{folder}/{authority}.pem", "-CAkey", f"{folder}/{authority}.key"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", f"/CN={name}", *options]
    command += ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem", *sign]
    command += ["-addext", f"basicConstraints=critical,CA:{'TRUE' if is_authority else 'FALSE'}"]
    command += ["-addext", f"subjectAltName={','.join(names)}"] if names else []
    subprocess.run(command, check=True, capture_output=True)


def write_passwords(file: Path, passwords: dict[str, str]) -> None:
    """A password file of mosquitto, by user."""
    command = shutil.which("mosquitto_passwd")
    if command is None:
        pytest.skip("mosquitto_passwd not found on PATH")
    file.touch(mode=0o600)
    for user, password in passwords.items():
        subprocess.run([command, "-b", str(file), user, password], check=True, capture_output=True)
