"""When a device raises more alarms than its budget: the chance by hand, the day's instants."""

import pytest

from stream_occ.alarm_rate import DAY_NS, budget_of, raised_lately, too_many, with_raised
from stream_occ.samples import Alert
from tests.unit.toy_model import toy_model


def pending(t_ns, *reasons, state="pending"):
    return Alert("a", "w", 0, t_ns, state, "warning", reasons, 2.0, "m")


@pytest.mark.parametrize(("per_day", "n"), [(0.1, 2), (1.0, 5), (10.0, 19)])
def test_fewest_alarms_that_a_budget_hardly_explains(per_day, n):
    """By tables of the Poisson law: of mean 1, P(4 or more) = .0190, P(5 or more) = .0037."""
    assert too_many(per_day) == n


def test_alarms_are_counted_where_they_become_pending_and_for_a_day():
    """Not again, not other states; a day later they are gone, and so are those of a clock that was ahead."""
    raised = with_raised((), [pending(5, "still"), pending(7, "k_of_n", "again"), pending(8, state="alarm")])
    assert raised == (5,)
    raised = with_raised(raised, [pending(DAY_NS + 4)])
    assert (raised, raised_lately(raised, DAY_NS + 4)) == ((5, DAY_NS + 4), 2)
    assert raised_lately(raised, DAY_NS + 5) == 1
    assert with_raised(raised, [pending(100)]) == (5, 100)
    assert with_raised(raised, [pending(2 * DAY_NS)]) == (DAY_NS + 4, 2 * DAY_NS)


def test_model_by_another_rule_has_no_budget():
    """Nothing asked, or nonsense from a file of others."""
    assert [budget_of(toy_model())] == [None]
    for asked, expected in ((2, 2.0), (0, None), ("1", None), (True, None)):
        model = toy_model()
        model.metadata["calibration"] = {"asked_per_day": asked}
        assert budget_of(model) == expected
