"""What the event engine is told, remembers and decides by: policy, observation, command, the alert of a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

from stream_occ.motion import Direction, MotionLimits
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES, AlertState, Decision

State = Literal["normal", "suspected", "checking", "pending", "alarm", "acknowledged"]
Refusal = Literal["no_open_alert", "other_alert", "not_in_this_state", "no_verdict"]
Recent = tuple[tuple[int, float | None, Direction | None], ...]
CommandKind = Literal["ack", "cancel", "mute", "unmute", "feedback"]


@dataclass(frozen=True, slots=True)
class EventPolicy:
    """When alerts begin, what is asked of the wearer and of people, and when alerts end.

    k, n: k of the last n windows flagged are a burst, 1 <= k <= n <= 1000: at a threshold within an alarm budget one
    window is enough (docs/results.md), at one that rejects a share of windows it may be chance.
    check: False takes every burst for a fall: no look at what follows, `suspected` becomes `pending` at once.
    still_s: so long still after the burst is a fall, 0.5 to 60 s: who stumbles moves on.
    still_acc_ms2, still_gyr_rads: a second is still where |a| spreads by less (std, m/s2) and mean |w| is less
    (rad/s), 0.01 to 20: breathing and a zero-rate offset of some deg/s stay below.
    posture_deg: still, and gravity turned by so much against the time before, is a fall, 5 to 175 degrees: between
    standing and lying are 90, between standing and sitting, worn at the waist, some 30.
    silence_s: nothing trusted for so long after a burst is a fall, 2 to 120 s: the device may lie under the wearer.
    Longer than the pauses between messages of a device that is well.
    check_s: who moves so long, posture as before, has recovered, 1 to 600 s: getting up takes most people less.
    max_check_s: bursts lengthen the check, up to so long in all, check_s to 3600 s: sport is not checked for ever.
    countdown_s: for the wearer to cancel before it is an alarm, 0 to 600 s (0: alarm at once).
    repeat_s: an alarm that no person has taken is told again each time so much has passed, 5 to 3600 s.
    max_level: each repeat is one level more urgent, up to this one, 1 to 10.
    clear_after_s: an acknowledged alert is resolved after so much in normal windows, the wearer having moved, without
    another burst, above 0 s.
    refractory_s: a burst in an open alert is told when the last change lies so far back; a burst within this time of
    an alert that ended by itself opens it again, 0 to 86,400 s: a fall is rarely one impact.
    merge_s: windows that end within this time of a closed alert and of its last flagged window overlap them and raise
    nothing, 0 to 60 s: window length + hop, with a little room; at least as long in `for_windows`.
    live_within_s: a burst older than this when it arrives is history and not escalated, above 0 s: lying on the floor
    for an hour is what kills, so an hour late is not too late, and most wrong clocks are within it.
    learning_s: so long from a device's first window alerts end before the alarm, marked `learning`, 0 (never) to
    2,592,000 s: for watching the rate of false alarms before anybody is called.
    not_worn_s: without any motion for so long the device is not worn, 0 (never said) or 60 to 86,400 s; nothing
    depends on it. not_worn_guard_s: and not so soon after a flagged window, 0 to 86,400 s: it may be worn by somebody
    who cannot move.
    """

    k: int = 1
    n: int = 1
    check: bool = True
    still_s: float = 2.0
    still_acc_ms2: float = 0.7
    still_gyr_rads: float = 0.5
    posture_deg: float = 45.0
    silence_s: float = 10.0
    check_s: float = 30.0
    max_check_s: float = 120.0
    countdown_s: float = 30.0
    repeat_s: float = 60.0
    max_level: int = 3
    clear_after_s: float = 300.0
    refractory_s: float = 60.0
    merge_s: float = 6.0
    live_within_s: float = 3600.0
    learning_s: float = 0.0
    not_worn_s: float = 600.0
    not_worn_guard_s: float = 900.0

    def for_windows(self, window_s: float, hop_s: float) -> EventPolicy:
        """The policy for windows of this length: those that share samples with a closed alert are its own."""
        return replace(self, merge_s=max(self.merge_s, window_s + hop_s))

    @property
    def motion_limits(self) -> MotionLimits:
        """Below which a second is still."""
        return MotionLimits(self.still_acc_ms2, self.still_gyr_rads)


@dataclass(frozen=True, slots=True)
class Observation:
    """One window as the engine sees it; the defaults are a live wearer in motion of whom only the score is known.

    decision: None where the window cannot be scored or is not trusted. is_still: its last second is; is_motionless:
    all of it, to the sensor's noise. gravity_before, gravity_after: unit mean acceleration of its first and last
    second, None where it has no direction. is_live: False where it came too late to act on. t_start_ns: where known,
    tells how much time has passed on a clock that was set back.
    """

    decision: Decision | None
    device_id: str
    t_end_ns: int
    is_still: bool = False
    is_motionless: bool = False
    gravity_before: Direction | None = None
    gravity_after: Direction | None = None
    is_live: bool = True
    t_start_ns: int | None = None

    @classmethod
    def of(cls, decision: Decision) -> Observation:
        """The observation that a decision alone makes."""
        return cls(decision, decision.device_id, decision.t_end_ns)


@dataclass(frozen=True, slots=True)
class Command:
    """A person's act. alert_id None means the open alert; t_ns: UTC when it came, the device's clock inside the engine.

    minutes: of a mute, 60 where None. verdict: of feedback.
    """

    kind: CommandKind
    by: str
    t_ns: int
    alert_id: str | None = None
    minutes: float | None = None
    verdict: Literal["fall", "false_alarm"] | None = None


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """The latest alert of a device: open, or closed and remembered. All stamps are on the device's present clock.

    state: since t_state_ns; the last change told is number seq, at t_told_ns. is_persons: closed by a person, never
    opened again by itself. t_event_ns: when it was suspected; gravity: before its first flagged window. check_end_ns:
    when moving on is recovery. trusted_ns: end of the last trusted window; due_ns: next deadline. still_since_ns,
    posture_deg: as last seen. quiet_ns: time in normal windows since the last burst; has_moved: in it. contributions:
    of the window that began it. confirmed_by: who said that it was a fall.
    """

    alert_id: str
    device_id: str
    model_id: str
    threshold: float
    score: float
    peak_score: float
    n_flagged: int
    t_first_ns: int
    t_last_flagged_ns: int
    t_event_ns: int
    t_told_ns: int
    t_state_ns: int
    trusted_ns: int
    check_end_ns: int
    seq: int = -1
    state: AlertState = "suspected"
    is_persons: bool = False
    by: str = ""
    level: int = 0
    due_ns: int | None = None
    gravity: Direction | None = None
    posture_deg: float | None = None
    still_since_ns: int | None = None
    quiet_ns: int = 0
    has_moved: bool = False
    contributions: tuple[tuple[str, float], ...] = ()
    confirmed_by: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """True until it is resolved, cancelled, a false alarm or expired."""
        return self.state in OPEN_ALERT_STATES


@dataclass(frozen=True, slots=True)
class EventState:
    """Where one device's alerts stand.

    t_ns: end of the last window. recent: (end, score and gravity before it where flagged, else None) of decided
    windows of the last n, from the earliest flagged one on. n_set_back: how often its clock went back.
    """

    t_ns: int | None = None
    recent: Recent = ()
    alert: OpenAlert | None = None
    muted_until_ns: int | None = None
    idle_since_ns: int | None = None
    is_not_worn: bool = False
    learning_until_ns: int | None = None
    n_set_back: int = 0

    @property
    def state(self) -> State:
        """Of the open alert, else normal."""
        return cast(State, self.alert.state) if self.alert is not None and self.alert.is_open else "normal"

    def is_muted(self, t_ns: int) -> bool:
        """True where a person has asked for quiet that is not over at t_ns of the device's clock."""
        return self.muted_until_ns is not None and t_ns < self.muted_until_ns


def ns(seconds: float) -> int:
    """Seconds in ns."""
    return round(seconds * NS_PER_S)
