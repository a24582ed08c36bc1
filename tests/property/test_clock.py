"""Our clock is set, wrong and right again: what is live stays live, and what is history stays history."""

from hypothesis import given
from hypothesis import strategies as st

from stream_occ.clock import ClockState, push_clock, set_clock
from stream_occ.samples import NS_PER_S

WITHIN_S = 3600
MARGIN_S = 10
SETS = st.integers(60, 43_200).flatmap(lambda s: st.sampled_from([-s, s]))
BACKLOG = st.tuples(st.integers(WITHIN_S + MARGIN_S, 86_400), st.integers(1, 5))  # how old, messages
PHASE = st.tuples(st.integers(1, 40), st.lists(BACKLOG, max_size=2))  # messages as they are made, then backlogs


class World:
    """A device that is behind_s behind UTC and sends every 10 s, its link 2 s slow, and our clock, wrong by off_s."""

    def __init__(self, *, is_own: bool, behind_s: int) -> None:
        self.is_own, self.behind_s = is_own, behind_s
        self.true_s, self.off_s, self.clock = 100_000, 0, ClockState()

    def set_clock(self, by_s: int) -> None:
        self.off_s += by_s
        self.clock = set_clock(self.clock, by_s * NS_PER_S)

    def is_live(self, age_s: int) -> bool:
        """Sends what is so old; true where it is live."""
        self.true_s += 10
        stamp_s, now_s = self.true_s - age_s - self.behind_s, self.true_s + self.off_s
        self.clock = push_clock(self.clock, stamp_s * NS_PER_S, now_s * NS_PER_S, is_own=self.is_own)
        return stamp_s * NS_PER_S >= now_s * NS_PER_S - self.clock.behind_ns - WITHIN_S * NS_PER_S


@given(st.integers(-86_400, 86_400), SETS, st.booleans(), st.lists(PHASE, min_size=3, max_size=3))
def test_clock_set_and_set_again_changes_nothing(behind_s, by_s, is_own, phases):
    """Four minutes; then before, while and after our clock is wrong. A device's clock that is ahead hides as much."""
    world = World(is_own=is_own, behind_s=behind_s if is_own else 0)
    for _ in range(25):
        world.is_live(2)
    ahead_s = max(0, -world.behind_s)
    for (n_live, backlogs), set_s in zip(phases, (0, by_s, -by_s), strict=True):
        if set_s:
            world.set_clock(set_s)
        assert all(world.is_live(2) for _ in range(n_live))
        for age_s, n in backlogs:
            assert not any(world.is_live(age_s + ahead_s) for _ in range(n))


@given(SETS, st.lists(BACKLOG, min_size=1), st.booleans())
def test_clock_set_and_set_again_leaves_a_device_as_it_was(by_s, backlogs, is_own):
    """Also one of which nobody has heard anything but a backlog."""
    world = World(is_own=is_own, behind_s=0)
    for age_s, n in backlogs:
        for _ in range(n):
            world.is_live(age_s)
    before = world.clock
    world.set_clock(by_s)
    world.set_clock(-by_s)
    assert world.clock == before
