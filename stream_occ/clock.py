"""What the stamps of a device tell of its clock: how far it is off ours, and how fast it runs away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from stream_occ.samples import NS_PER_S

CLOCK_STEP_NS = 60 * NS_PER_S  # of so long the sample that was least late tells the clock: links only delay
CLOCK_JUMP_NS = 30 * NS_PER_S  # lateness that changes by more is a backlog, or a clock that was set
CLOCK_RUSH_NS = 3 * NS_PER_S  # lateness that changes by more in half a minute, a tenth: no clock runs so
CLOCK_PACE_NS = 1 * NS_PER_S  # of two minutes in a row: a pace within 1.7 % of life
CLOCK_STEPS = 10
CLOCK_STEPS_FOR_DRIFT = 4
CLOCK_OFFSET_S = (10.0, 5.0)  # a fault from the first on, until it is below the second
CLOCK_DRIFT_PPM = (1000.0, 500.0)  # crystals are within 100, a phone's uncorrected clock within 30 (2.4 s a day)
CLOCK_WILD_PPM = 10_000.0  # a window of 5 s is longer or shorter by 50 ms: its motion is as much slower or faster
EPOCH_TOLERANCE = 0.02  # a year, by what a clock may be off besides


@dataclass(frozen=True, slots=True)
class ClockState:
    """A device's clock against ours. since_ns: UTC at which the present minute began; first_lag_ns, lag_ns: by how much
    the newest stamp of its first message, and of the least late one, was behind UTC; early_ns, late_ns: the latter in
    each of its halves, None before the second; lows: (UTC, lag_ns) of the last whole minutes; faults: what holds now.
    own_lag_ns: by how much a clock that nobody sets is behind UTC, last found where samples came at the pace of life
    for two minutes: a backlog comes faster, or slower where the link can do no more; None where the clock is UTC's, or
    not known yet. set_ns: by how much our clock was set forward, all in all, since the device's was last right by it;
    least_ns: the least lag of the whole minutes since then."""

    since_ns: int | None = None
    first_lag_ns: int = 0
    lag_ns: int = 0
    early_ns: int | None = None
    late_ns: int | None = None
    lows: tuple[tuple[int, int], ...] = ()
    faults: tuple[str, ...] = ()
    own_lag_ns: int | None = None
    set_ns: int = 0
    least_ns: int | None = None

    @property
    def behind_ns(self) -> int:
        """By how much the stamp of a sample that is made now is behind our clock, as far as that is known.

        Ours may have been wrong before it was set, or may be now: it is wrong by no more than the least late samples
        show, for links only delay.
        """
        least_ns = self.lag_ns if self.least_ns is None else min(self.least_ns, self.lag_ns)
        ours_ns = min(max(self.set_ns, min(0, least_ns)), max(0, least_ns))
        return ours_ns if self.own_lag_ns is None else max(self.own_lag_ns, min(0, ours_ns))

    @property
    def offset_s(self) -> float | None:
        """By how much the clock is ahead, less the delay of the fastest message; None within the first minute."""
        return -self.lows[-1][1] / NS_PER_S if self.lows else None

    @property
    def drift_ppm(self) -> float | None:
        """By how many millionths the clock is fast, over up to ten minutes; None before there are four.

        The lesser of what it gained from first to last and in the median minute: a clock that is set once runs no
        faster.
        """
        if len(self.lows) < CLOCK_STEPS_FOR_DRIFT:
            return None
        return min((_pace(self.lows[0], self.lows[-1]), median(map(_pace, self.lows, self.lows[1:]))), key=abs)

    @property
    def is_wild(self) -> bool:
        """True while it drifts by so much that windows are longer or shorter than they say."""
        ppm = self.drift_ppm if "clock_drift" in self.faults else None
        return ppm is not None and abs(ppm) > CLOCK_WILD_PPM


def push_clock(state: ClockState, newest_t_ns: int, now_ns: int, *, is_own: bool = False) -> ClockState:
    """The state after a message whose newest stamp is newest_t_ns came at now_ns (UTC); is_own: nobody sets the clock.

    `clock_skew`: the clock was as far off for a whole minute; `clock_drift`: it runs away. A minute in which stamps
    come faster or slower than life, by more than a tenth, tells of neither: that is a backlog which is worked off, or
    another rate than is declared.
    """
    lag_ns = now_ns - newest_t_ns
    if not is_own and state.own_lag_ns is not None:
        state = replace(state, own_lag_ns=None)
    if state.since_ns is None or now_ns < state.since_ns or abs(lag_ns - state.first_lag_ns) > CLOCK_JUMP_NS:
        return ClockState(
            now_ns, lag_ns, lag_ns, own_lag_ns=state.own_lag_ns, set_ns=state.set_ns, least_ns=state.least_ns
        )
    if now_ns - state.since_ns < CLOCK_STEP_NS:
        return _in_minute(state, lag_ns, is_late=now_ns - state.since_ns >= CLOCK_STEP_NS // 2)
    state = _ended_minute(state, now_ns, is_own=is_own)
    return replace(state, since_ns=now_ns, first_lag_ns=lag_ns, lag_ns=lag_ns, early_ns=None, late_ns=None)


def _in_minute(state: ClockState, lag_ns: int, *, is_late: bool) -> ClockState:
    """The state with one more message; is_late: it came in the minute's second half."""
    if is_late:
        early_ns = state.lag_ns if state.early_ns is None else state.early_ns
        late_ns = lag_ns if state.late_ns is None else min(lag_ns, state.late_ns)
        if (early_ns, late_ns) != (state.early_ns, state.late_ns):
            state = replace(state, early_ns=early_ns, late_ns=late_ns)
    return state if lag_ns >= state.lag_ns else replace(state, lag_ns=lag_ns)


def _ended_minute(state: ClockState, now_ns: int, *, is_own: bool) -> ClockState:
    """What a minute tells that is over; where stamps did not keep its pace, what was known of the clock is void."""
    early_ns, late_ns = state.early_ns, state.late_ns
    if early_ns is not None and late_ns is not None and abs(late_ns - early_ns) > CLOCK_RUSH_NS:
        return replace(state, lows=())
    lows = (*state.lows, (now_ns, state.lag_ns))[-CLOCK_STEPS:]
    is_in_pace = is_own and len(lows) > 1 and abs(lows[-1][1] - lows[-2][1]) <= CLOCK_PACE_NS
    own_lag_ns = state.lag_ns if is_in_pace else state.own_lag_ns
    is_right = abs(state.lag_ns) <= CLOCK_OFFSET_S[1] * NS_PER_S
    set_ns = 0 if is_right else state.set_ns
    least_ns = state.lag_ns if is_right or state.least_ns is None else min(state.least_ns, state.lag_ns)
    state = replace(state, lows=lows, own_lag_ns=own_lag_ns, set_ns=set_ns, least_ns=least_ns)
    measured = (
        ("clock_skew", state.offset_s, CLOCK_OFFSET_S),
        ("clock_drift", state.drift_ppm, CLOCK_DRIFT_PPM),
    )
    faults = tuple(
        name
        for name, value, (begins, ends) in measured
        if value is not None and abs(value) > (ends if name in state.faults else begins)
    )
    return replace(state, faults=faults)


def _pace(before: tuple[int, int], after: tuple[int, int]) -> float:
    """By how many millionths a clock is fast that lost as much of its lag."""
    return (before[1] - after[1]) / (after[0] - before[0]) * 1e6


def set_clock(state: ClockState, by_ns: int) -> ClockState:
    """The state after our own clock was set forward by so much: the device's is as much further behind."""
    if state.since_ns is None:
        return state
    return replace(
        state,
        since_ns=state.since_ns + by_ns,
        first_lag_ns=state.first_lag_ns + by_ns,
        lag_ns=state.lag_ns + by_ns,
        early_ns=None if state.early_ns is None else state.early_ns + by_ns,
        late_ns=None if state.late_ns is None else state.late_ns + by_ns,
        lows=tuple((t_ns + by_ns, lag_ns + by_ns) for t_ns, lag_ns in state.lows),
        own_lag_ns=None if state.own_lag_ns is None else state.own_lag_ns + by_ns,
        set_ns=state.set_ns + by_ns,
        least_ns=None if state.least_ns is None else state.least_ns + by_ns,
    )


def epoch_mistake(t_ns: int, now_ns: int) -> str | None:
    """How a stamp is wrong that is in another unit of time than was declared; None where that is not what it is.

    >>> epoch_mistake(1_700_000_000_123, 1_700_000_000_000_000_000)
    '1e6 times too small'
    """
    for exponent in (3, 6, 9):
        for factor, name in ((10**exponent, "small"), (10**-exponent, "large")):
            if abs(t_ns * factor / now_ns - 1) < EPOCH_TOLERANCE:
                return f"1e{exponent} times too {name}"
    return None
