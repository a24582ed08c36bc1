"""What |a| at rest says of units and gravity."""

import numpy as np
import pytest

from stream_occ.quality import rest_fault, rest_magnitude_ms2


def window(level, spread, seed=0):
    """One (1, 6, 250) window with acc z at `level` and Gaussian noise of `spread` on each axis."""
    signals = np.random.default_rng(seed).normal(0, spread, (1, 6, 250))
    signals[0, 2] += level
    return signals


@pytest.mark.parametrize(
    ("level", "spread", "fault"),
    [
        (9.81, 0.03, None),
        (10.6, 0.05, None),  # 80 mg of offset
        (1.0, 0.004, "acc_unit_g_as_ms2"),
        (96.2, 0.3, "acc_unit_ms2_as_g"),
        (1000.0, 3.0, "acc_unit_mg_as_ms2"),
        (0.0, 0.02, "gravity_missing"),
        (5.5, 0.02, "acc_scale"),
    ],
)
def test_rest_magnitude_names_the_mistake(level, spread, fault):
    """A still device with a wrong unit, scale or without gravity is named; one at 9.81 is not."""
    magnitude = rest_magnitude_ms2(window(level, spread))[0]
    assert rest_fault(magnitude) == fault
    assert np.isfinite(magnitude)


def test_moving_device_says_nothing():
    """While |a| spreads there is no magnitude at rest, hence no fault."""
    assert np.isnan(rest_magnitude_ms2(window(9.81, 2.0))[0])
    assert rest_fault(float("nan")) is None
