"""Who may look and who may act: the file of people, passwords, sessions, a proxy's header."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from stream_occ.dashboard.access import (
    MAX_FAILURES,
    SESSION_S,
    Access,
    Person,
    Proxy,
    hash_password,
    is_name,
    is_password,
    read_people,
)
from stream_occ.errors import ConfigError, UsageError

ANNA = hash_password("correct horse", salt=b"s" * 16)
HOME = "127.0.0.1"


def test_a_hash_is_scrypt_of_the_password_and_another_password_is_none() -> None:
    """Against the standard library's own call, with the parameters that the text names."""
    kind, log_n, r, p, salt, key = ANNA.split("$")
    own = hashlib.scrypt(
        b"correct horse", salt=b"s" * 16, n=2 ** int(log_n), r=int(r), p=int(p), maxmem=2**28, dklen=32
    )
    assert (kind, base64.b64decode(salt), base64.b64decode(key)) == ("scrypt", b"s" * 16, own)
    assert is_password("correct horse", ANNA)
    assert not is_password("correct horsf", ANNA)
    assert hash_password("correct horse") != ANNA
    with pytest.raises(UsageError, match="must have 8 to 1024 characters"):
        hash_password("short")


def test_people_are_read_line_by_line(tmp_path: Path) -> None:
    """Comments and empty lines are none."""
    path = tmp_path / "people"
    path.write_text(f"# the ward\n\nanna:act:{ANNA}\nBob Ö.:view:{ANNA}\n")
    people = read_people(path)
    assert [person for person, _ in people.values()] == [Person("anna", "act"), Person("Bob Ö.", "view")]


@pytest.mark.parametrize(
    "line",
    ["anna", "anna:act:", "anna:root:HASH", f"anna:act:{ANNA}\nanna:view:{ANNA}", f":act:{ANNA}", "anna:act:HASH:x",
     "anna:act:" + ANNA.replace("$15$", "$60$"), "anna:act:" + ANNA[:-8],
     "anna:act:" + ANNA.replace("$c3", "$3"), "a\tb:act:" + ANNA],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """With its number, without its content."""
    path = tmp_path / "people"
    path.write_text(line.replace("HASH", ANNA))
    if line.endswith("HASH:x"):
        path.write_text(f"anna:act:{ANNA}:x")
    with pytest.raises(ConfigError, match=rf"people:{line.count(chr(10)) + 1}: must ") as caught:
        read_people(path)
    assert "$" not in str(caught.value)


def test_nobody_is_an_error(tmp_path: Path) -> None:
    """An empty file would lock everybody out, and a missing one is no open door."""
    (tmp_path / "people").write_text("# nobody\n")
    with pytest.raises(ConfigError, match="must name somebody"):
        read_people(tmp_path / "people")
    with pytest.raises(ConfigError, match="must be a readable text file"):
        read_people(tmp_path / "missing")


def test_file_of_people_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """Whoever stood in the part that is not read would be locked out in silence."""
    (tmp_path / "people").write_text(f"anna:act:{ANNA}\n" + "# ä\n" * 250_000)
    with pytest.raises(ConfigError, match="must have at most 1048576 bytes"):
        read_people(tmp_path / "people")


def access(*, proxy: Proxy | None = None) -> Access:
    return Access({"anna": (Person("anna", "act"), ANNA), "bob": (Person("bob", "view"), ANNA)}, proxy)


def test_without_people_and_proxy_everybody_may_act() -> None:
    """Which the command allows on loopback alone."""
    assert Access().person(HOME, [], None, 0.0) == Person("", "act")


def test_a_session_begins_with_the_password_and_ends_by_time_or_act() -> None:
    """Its token is nowhere kept in clear."""
    who = access()
    assert who.person(HOME, [], None, 0.0) is None
    assert who.person(HOME, [], "made-up", 0.0) is None
    assert who.log_in("anna", "wrong horse", HOME, 0.0) is None
    assert who.log_in("eve", "correct horse", HOME, 0.0) is None
    token = who.log_in("bob", "correct horse", HOME, 0.0)
    assert token is not None
    assert len(token) >= 43
    assert who.person(HOME, [], token, SESSION_S - 1) == Person("bob", "view")
    assert who.person(HOME, [], token, SESSION_S) is None
    assert token not in repr(who._sessions)
    who.log_out(token)
    assert who.person(HOME, [], token, 1.0) is None


def test_guessing_is_slowed_down_by_address() -> None:
    """After so many wrong ones within a minute; others are not locked out."""
    who = access()
    for n in range(MAX_FAILURES):
        assert who.may_try("10.0.0.9", float(n))
        assert who.log_in("anna", "wrong horse", "10.0.0.9", float(n)) is None
    assert not who.may_try("10.0.0.9", 10.0)
    assert who.may_try("10.0.0.8", 10.0)
    assert who.may_try("10.0.0.9", 60.5)


def test_a_proxy_is_believed_from_its_address_alone_and_once() -> None:
    """Roles are those of the file; whoever is not in it may look."""
    who = access(proxy=Proxy.of("X-Remote-User", "10.0.0.1, fd00::/8"))
    assert who.person("10.0.0.1", ["anna"], None, 0.0) == Person("anna", "act")
    assert who.person("fd00::7", ["carla"], None, 0.0) == Person("carla", "view")
    assert who.person("10.0.0.2", ["anna"], None, 0.0) is None
    assert who.person("10.0.0.1", ["anna", "bob"], None, 0.0) is None
    assert who.person("10.0.0.1", [""], None, 0.0) is None
    assert who.person("unix", ["anna"], None, 0.0) is None
    with pytest.raises(UsageError, match="must be addresses or networks"):
        Proxy.of("X-Remote-User", "everywhere")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("anna", True),
        ("Änne Ø", True),
        ("", False),
        (" a", False),
        ("a\nb", False),
        ("a\u202eb", False),
        ("a" * 101, False),
    ],
)
def test_names_are_one_visible_line(name: str, is_one: bool) -> None:
    """Others read them, in a log too."""
    assert is_name(name) is is_one
