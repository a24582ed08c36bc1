"""Who may look and who may act: people with passwords, sessions, and names that a trusted proxy gives.

A file of people has a line each, `name:role:hash`; role is `view` or `act`, hash what `hash_password` makes. Passwords
are hashed with scrypt (N = 2^15, r = 8, p = 1: 32 MiB, some 0.1 s), sessions are 32 random bytes in memory.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stream_occ.errors import ConfigError, UsageError, visible
from stream_occ.regular import open_regular

Role = Literal["view", "act"]
LOG_N, R, P = 15, 8, 1
MAX_LOG_N = 17  # of a hash from elsewhere: 128 MiB
MIN_PASSWORD, MAX_PASSWORD = 8, 1024
MAX_FILE_BYTES = 1024 * 1024
MAX_NAME = 100
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 1000
MAX_FAILURES, FAILURES_WITHIN_S = 10, 60.0
_REMEDY = "Write lines such as anna:act:HASH, with what stream-occ dashboard --hash-password prints for HASH"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the page."""

    name: str
    role: Role

    @property
    def may_act(self) -> bool:
        """True where commands are taken from them."""
        return self.role == "act"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A reverse proxy that says who somebody is: in which header, and from which addresses it is believed."""

    header: str
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    @classmethod
    def of(cls, header: str, addresses: str) -> Proxy:
        """addresses: such as 127.0.0.1,10.0.0.0/24; raises UsageError for another text."""
        try:
            networks = tuple(ipaddress.ip_network(text.strip()) for text in addresses.split(","))
        except ValueError as error:
            raise UsageError("--proxy-from", "be addresses or networks", addresses, "Write 127.0.0.1") from error
        return cls(header.lower(), networks)

    def trusts(self, address: str) -> bool:
        """True for an address of the proxy."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.networks)


def hash_password(password: str, *, salt: bytes | None = None) -> str:
    """The line's third part for a password; raises UsageError for one that is too short."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise UsageError(
            "password", f"have {MIN_PASSWORD} to {MAX_PASSWORD} characters", "another length", "Choose one"
        )
    salt = secrets.token_bytes(16) if salt is None else salt
    key = _scrypt(password, salt, LOG_N, R, P)
    return f"scrypt${LOG_N}${R}${P}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def is_password(password: str, hashed: str) -> bool:
    """True where `hashed` was made of the password."""
    _, log_n, r, p, salt, key = hashed.split("$")
    found = _scrypt(password[: MAX_PASSWORD + 1], base64.b64decode(salt), int(log_n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(key))


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=1 << log_n, r=r, p=p, maxmem=256 * 1024 * 1024, dklen=32)


def _is_hash(text: str) -> bool:
    try:
        kind, log_n, r, p, salt, key = text.split("$")
        is_bounded = 10 <= int(log_n) <= MAX_LOG_N and int(r) == R and 1 <= int(p) <= 4
        n_salt, n_key = (len(base64.b64decode(each, validate=True)) for each in (salt, key))
        return kind == "scrypt" and is_bounded and n_salt > 0 and n_key == 32
    except ValueError:
        return False


def is_name(text: str) -> bool:
    """True for a name that others can read in one line, and that a file of people can hold."""
    return 0 < len(text) <= MAX_NAME and text == text.strip() and ":" not in text and visible(text) == text


def read_people(path: Path) -> dict[str, tuple[Person, str]]:
    """People by name, each with the hash; raises ConfigError, with the line, for what is none."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(str(path), f"have at most {MAX_FILE_BYTES} bytes", "more", "Check the path")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "be a readable text file", type(error).__name__, "Check the path") from error
    found: dict[str, tuple[Person, str]] = {}
    for n, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, _, hashed = rest.partition(":")
        if not is_name(name) or name in found or role not in ("view", "act") or not _is_hash(hashed):
            what = "hold each name once" if name in found else "be name:role:hash, role view or act"
            raise ConfigError(f"{path}:{n}", what, "another line", _REMEDY)
        found[name] = (Person(name, "act" if role == "act" else "view"), hashed)
    if not found:
        raise ConfigError(str(path), "name somebody", "nobody", _REMEDY)
    return found


@dataclass(slots=True)
class Access:
    """Who somebody is. `people` and `proxy` None: everybody is the one at this machine, and may act."""

    people: Mapping[str, tuple[Person, str]] | None = None
    proxy: Proxy | None = None
    _sessions: OrderedDict[bytes, tuple[Person, float]] = field(default_factory=OrderedDict)
    _failures: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)

    @property
    def is_open(self) -> bool:
        """True where nobody logs in: on loopback alone."""
        return self.people is None and self.proxy is None

    def person(self, address: str, headers: Sequence[str], token: str | None, now_s: float) -> Person | None:
        """Who sent a request: headers are the values of the proxy's header, token is of the session's cookie.

        None: nobody known. A proxy's header from elsewhere, or more than one, says nothing.
        """
        if self.is_open:
            return Person("", "act")
        if self.proxy is not None and len(headers) == 1 and self.proxy.trusts(address) and is_name(headers[0]):
            known = (self.people or {}).get(headers[0])
            return Person(headers[0], "view") if known is None else known[0]
        found = self._sessions.get(_digest(token)) if token else None
        return found[0] if found is not None and found[1] > now_s else None

    def may_try(self, address: str, now_s: float) -> bool:
        """False for an address from which too many wrong passwords came of late."""
        failures = self._failures.get(address, ())
        return sum(now_s - each < FAILURES_WITHIN_S for each in failures) < MAX_FAILURES

    def log_in(self, name: str, password: str, address: str, now_s: float) -> str | None:
        """A session's token, or None; takes as long for a name that is not known. For one thread at a time."""
        people = self.people or {}
        known = people.get(name)
        hashed = known[1] if known is not None else next((each for _, each in people.values()), None)
        if hashed is None or not is_password(password, hashed) or known is None:
            self._failures.setdefault(address, deque(maxlen=MAX_FAILURES)).append(now_s)
            self._failures.move_to_end(address)
            if len(self._failures) > MAX_SESSIONS:
                self._failures.popitem(last=False)
            return None
        token = secrets.token_urlsafe(32)
        self._sessions[_digest(token)] = (known[0], now_s + SESSION_S)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token

    def log_out(self, token: str | None) -> None:
        """Ends the session."""
        if token:
            self._sessions.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
