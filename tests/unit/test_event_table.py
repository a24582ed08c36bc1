"""Every cell of the event engine's table."""

from dataclasses import replace

import pytest

from stream_occ.alert_table import TABLE, Turn
from stream_occ.events import Observation
from stream_occ.samples import NS_PER_S, Decision
from tests.unit.event_player import POLICY, UP, brought_to

NOTHING: list[tuple[str, ...]] = []
DENIED = [("false_alarm", "feedback_false_alarm")]
CANCELLED = [("cancelled", "cancel")]
CLEARED = [("resolved", "all_clear")]
TAKEN = [("acknowledged", "ack")]
AGAIN = [("alarm", "k_of_n", "again")]
CHECKING = ("checking", "k_of_n")
# What each state makes of each signal, written down from the specification: the changes told, None where refused.
# Windows are upright and in motion, and more than refractory_s and merge_s after the last change.
EXPECTED = {
    ("normal", "burst"): [("suspected", "k_of_n")],
    ("normal", "flagged"): NOTHING,
    ("normal", "normal"): NOTHING,
    ("normal", "untrusted"): NOTHING,
    ("normal", "due"): NOTHING,
    ("normal", "ack"): None,
    ("normal", "cancel"): None,
    ("normal", "false_alarm"): DENIED,
    ("normal", "fall"): [("resolved", "feedback_fall")],
    ("suspected", "burst"): [CHECKING],
    ("suspected", "flagged"): [CHECKING, ("expired", "moving")],
    ("suspected", "normal"): [CHECKING, ("expired", "moving")],
    ("suspected", "untrusted"): [CHECKING],
    ("suspected", "due"): [("pending", "no_data")],
    ("suspected", "ack"): None,
    ("suspected", "cancel"): CANCELLED,
    ("suspected", "false_alarm"): DENIED,
    ("suspected", "fall"): [("suspected", "feedback_fall")],
    ("checking", "burst"): NOTHING,
    ("checking", "flagged"): [("expired", "moving")],
    ("checking", "normal"): [("expired", "moving")],
    ("checking", "untrusted"): NOTHING,
    ("checking", "due"): [("pending", "no_data")],
    ("checking", "ack"): None,
    ("checking", "cancel"): CANCELLED,
    ("checking", "false_alarm"): DENIED,
    ("checking", "fall"): [("checking", "feedback_fall")],
    ("pending", "burst"): [("pending", "k_of_n", "again")],
    ("pending", "flagged"): NOTHING,
    ("pending", "normal"): NOTHING,
    ("pending", "untrusted"): NOTHING,
    ("pending", "due"): [("alarm", "countdown")],
    ("pending", "ack"): TAKEN,
    ("pending", "cancel"): CANCELLED,
    ("pending", "false_alarm"): DENIED,
    ("pending", "fall"): [("pending", "feedback_fall")],
    ("alarm", "burst"): AGAIN,
    ("alarm", "flagged"): NOTHING,
    ("alarm", "normal"): NOTHING,
    ("alarm", "untrusted"): NOTHING,
    ("alarm", "due"): [("alarm", "repeat")],
    ("alarm", "ack"): TAKEN,
    ("alarm", "cancel"): CLEARED,
    ("alarm", "false_alarm"): DENIED,
    ("alarm", "fall"): [("alarm", "feedback_fall")],
    ("acknowledged", "burst"): AGAIN,
    ("acknowledged", "flagged"): NOTHING,
    ("acknowledged", "normal"): NOTHING,
    ("acknowledged", "untrusted"): NOTHING,
    ("acknowledged", "due"): NOTHING,
    ("acknowledged", "ack"): None,
    ("acknowledged", "cancel"): CLEARED,
    ("acknowledged", "false_alarm"): DENIED,
    ("acknowledged", "fall"): [("acknowledged", "feedback_fall")],
}


def test_table_has_every_pair_and_no_other():
    """6 states and 9 signals."""
    assert set(TABLE) == set(EXPECTED)
    assert len(EXPECTED) == 54


@pytest.mark.parametrize(("state", "signal"), sorted(EXPECTED))
def test_every_state_makes_of_every_signal_what_is_written_down(state, signal):
    """Reasons included; what is not told keeps its state."""
    player = brought_to(state)
    assert player.state.state == state
    t_ns = round((player.t_s + 100) * NS_PER_S)
    label = "outlier" if signal in ("burst", "flagged") else "normal"
    seen = Observation(Decision("dev", t_ns, 2.0, 1.0, label, "m"), "dev", t_ns)
    turn = Turn(POLICY, t_ns, None if signal in ("due", "ack", "cancel", "false_alarm", "fall") else seen)
    after = TABLE[state, signal](replace(player.state, recent=((t_ns, 2.0, UP),)), turn)
    if EXPECTED[state, signal] is None:
        assert after is None
        assert turn.told == []
        return
    told = [(alert.state, *alert.reasons) for alert in turn.told]
    assert told == EXPECTED[state, signal]
    closed = {"expired": "normal", "cancelled": "normal", "resolved": "normal", "false_alarm": "normal"}
    assert after.state == (closed.get(told[-1][0], told[-1][0]) if told else state)
