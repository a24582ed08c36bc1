"""What is said of each topic, and of all of them: plain data, filled by `advice`, `wearers` and `inputs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stream_occ.doctor.signals import Timing


@dataclass(slots=True)
class Question:
    """What is not clear, and the line to set; "" where no setting mends it."""

    text: str
    line: str


@dataclass(slots=True)
class Finding:
    """One topic. codec None: no codec reads it, `refusals` says why by codec. profile: keys that its input needs.

    part: the level, and its name, in which this topic differs from those in `joined_with`, which have the other sensor.
    """

    topic: str
    n_messages: int
    n_retained: int
    per_s: float
    mean_bytes: float
    largest_bytes: int
    codec: str | None = None
    n_read: int = 0
    also: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    timing: Timing | None = None
    units: list[str] = field(default_factory=list)
    stamps: str = ""
    gravity: str = ""
    profile: dict[str, Any] = field(default_factory=dict)
    pattern: str | None = None
    device: str | None = None
    named: str | None = None
    part: tuple[int, str] | None = None
    joined_with: list[str] = field(default_factory=list)
    order: str = ""
    questions: list[Question] = field(default_factory=list)

    def ask(self, text: str, line: str) -> None:
        """Adds a question, unless it was asked."""
        if (question := Question(text, line)) not in self.questions:
            self.questions.append(question)


@dataclass(slots=True)
class Setting:
    """A value of the section `stream`, and why."""

    value: float
    why: str


@dataclass(slots=True)
class Diagnosis:
    """Findings by topic, and the inputs of a configuration that reads what can be read, with their questions."""

    seconds: float
    findings: list[Finding]
    inputs: list[dict[str, Any]]
    stream: dict[str, Setting]
    questions: list[Question]
    n_elsewhere: int
    n_own: int
    n_lost: int
    codecs_missing: list[str]
