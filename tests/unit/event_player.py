"""A wearer's day for the event engine, window by window at 2 Hz: what is seen, what is told."""

from stream_occ.events import Command, EventPolicy, EventState, Observation, command, finish, push, tick
from stream_occ.samples import NS_PER_S, Decision

UP = (0.0, 0.0, 1.0)
LYING = (1.0, 0.0, 0.0)
POLICY = EventPolicy(k=1, n=1)


class Player:
    """Drives one device's engine; `told` are the changes as (second, state, reasons)."""

    def __init__(self, policy=POLICY, hop_s=0.5, start_s=0.0):
        self.policy, self.hop_s, self.t_s = policy, hop_s, start_s
        self.state, self.alerts = EventState(), []

    @property
    def told(self):
        return [(alert.t_ns / NS_PER_S, alert.state, *alert.reasons) for alert in self.alerts]

    def window(self, score, *, is_still=False, is_motionless=False, before=UP, after=UP, is_live=True):
        """One window that ends hop_s after the last one; score None: it cannot be trusted."""
        self.t_s += self.hop_s
        t_ns = round(self.t_s * NS_PER_S)
        decision = None
        if score is not None:
            decision = Decision("dev", t_ns, score, 1.0, "outlier" if score > 1 else "normal", "m")
        seen = Observation(decision, "dev", t_ns, is_still, is_motionless, before, after, is_live)
        self._take(push(self.state, seen, self.policy))

    def walk(self, seconds, **kwargs):
        return self._repeat(seconds, 0.5, **kwargs)

    def lie(self, seconds, **kwargs):
        return self._repeat(seconds, 0.5, is_still=True, after=LYING, before=LYING, **kwargs)

    def sit(self, seconds, **kwargs):
        """Still, upright as before."""
        return self._repeat(seconds, 0.5, is_still=True, **kwargs)

    def blind(self, seconds, **kwargs):
        return self._repeat(seconds, None, **kwargs)

    def hit(self, n=1, score=2.0, **kwargs):
        """n flagged windows."""
        return self._repeat(n * self.hop_s, score, **kwargs)

    def away(self, seconds):
        """Time without windows, and nobody who ticks."""
        self.t_s += seconds
        return self

    def wait(self, seconds):
        """Time without windows: the device's clock is ticked on."""
        self.t_s += seconds
        self._take(tick(self.state, round(self.t_s * NS_PER_S), self.policy))
        return self

    def act(self, kind, after_s=0.0, by="nurse", **kwargs):
        """A person's act; returns the reason of a refusal."""
        act = Command(kind, by, round((self.t_s + after_s) * NS_PER_S), **kwargs)
        state, told, refusal = command(self.state, act, self.policy)
        self._take((state, told))
        return refusal

    def end(self):
        self._take(finish(self.state, self.policy))
        return self

    def _repeat(self, seconds, score, **kwargs):
        for _ in range(round(seconds / self.hop_s)):
            self.window(score, **kwargs)
        return self

    def _take(self, made):
        self.state, told = made
        self.alerts += told


def brought_to(name):
    """A player whose engine is in the state; normal is that after an alert that a person has closed."""
    player = Player().walk(5).hit()
    if name == "suspected":
        return player
    player.walk(0.5)
    if name == "checking":
        return player
    player.wait(16)
    if name == "pending":
        return player
    player.wait(30)
    if name == "acknowledged":
        assert player.act("ack") is None
    elif name == "normal":
        assert player.act("cancel") is None
    return player
