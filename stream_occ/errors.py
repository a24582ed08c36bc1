"""One error tree; every message is one line that says where, what must hold, what came and what to do.

::

    StreamOccError          exit code 1   something failed that the user may act on
    |-- ServiceError        exit code 1   the running service cannot go on (broker refused, session taken over)
    `-- InputError          exit code 2   what was given is not usable
        |-- UsageError      exit code 2   a flag or an argument
        |-- ConfigError     exit code 2   a configuration file, an environment override, a secret
        |-- DataError       exit code 2   a data set, a recording, a training matrix
        |-- ModelError      exit code 2   a model file: damaged, truncated, of a future version, mismatched
        `-- PayloadError    exit code 2   one message of a device; `reason` is the counter it goes to
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_PART = 1000  # characters of each part of an error's line


class StreamOccError(Exception):
    """Base of all errors raised on purpose by this package.

    `where` names the file, key, topic or argument; `expected` completes "must ..."; `got` is what came;
    `remedy` is a sentence without its full stop, or a question with its mark, that says what to do.
    """

    exit_code = 1

    def __init__(self, where: str, expected: str, got: str, remedy: str) -> None:
        self.where = where
        self.expected = expected
        self.got = got
        self.remedy = remedy
        where, expected, got, remedy = (_short(part) for part in (where, expected, got, remedy))
        line = f"{where}: must {expected}; got {got}. {_sentence(remedy)}"
        super().__init__(" ".join(line.split()))

    @property
    def without_got(self) -> str:
        """The line without what came, for logs: a message may hold names and samples."""
        where, expected, remedy = (_short(part) for part in (self.where, self.expected, self.remedy))
        return " ".join(f"{where}: must {expected}. {_sentence(remedy)}".split())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by line and facts: worker processes hand errors back, and __init__ takes other arguments."""
        return _unpickle, (type(self), self.args, self.__dict__)


def _short(text: str) -> str:
    return text if len(text) <= MAX_PART else f"{text[: MAX_PART - 3]}..."


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def visible(text: str) -> str:
    r"""The text in one line, with whatever breaks lines, moves a cursor or turns writing round told as its code.

    >>> visible("a\nb\x1b[2J \u202etxt.exe Änne")
    'a\\nb\\x1b[2J \\u202etxt.exe Änne'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """A remedy for an unknown name: the known one that is most like it, whatever its case, or else `otherwise`.

    >>> nearest("mobifal", ["mobifall", "table"], "Name a set"), nearest("x", ["table"], "Name a set")
    ('Did you mean mobifall?', 'Name a set')
    """
    import difflib

    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1)
    return f"Did you mean {lowered[near[0]]}?" if near else otherwise


def _unpickle(kind: type[StreamOccError], args: tuple[Any, ...], facts: dict[str, Any]) -> StreamOccError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class ServiceError(StreamOccError):
    """The running service cannot go on."""


class InputError(StreamOccError):
    """What was given is not usable."""

    exit_code = 2


class UsageError(InputError):
    """A command-line flag or an argument is off."""


class ConfigError(InputError):
    """A configuration file, an environment override or a secret is off."""


class DataError(InputError):
    """A data set, a recording or a training matrix is off."""


class ModelError(InputError):
    """A model file cannot be trusted or used."""


class PayloadError(InputError):
    """One message of a device is refused; nothing else is lost with it.

    `reason` is a short snake_case code: the name of the counter that the refusal goes to. `t_ns`: a stamp beyond the
    range of clocks, as it would be if its unit were true; whoever knows the time can tell which unit it is in.
    """

    def __init__(
        self, where: str, expected: str, got: str, remedy: str, *, reason: str, t_ns: int | None = None
    ) -> None:
        super().__init__(where, expected, got, remedy)
        self.reason = reason
        self.t_ns = t_ns
