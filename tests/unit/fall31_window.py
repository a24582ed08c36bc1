"""Windows of fall31's tests, made from |a| or axes, and their features by name."""

import numpy as np
import pytest

from stream_occ.features.fall31 import FEATURE_SET, NAMES
from stream_occ.windowing import WindowBatch

RATE_HZ = 50.0
G = 9.80665


def extract(signals, rate_hz=RATE_HZ):
    signals = np.asarray(signals, dtype=float)
    n = len(signals)
    return FEATURE_SET.extract(WindowBatch(("dev",) * n, np.zeros(n, dtype=np.int64), rate_hz, signals))


def features_of(acc_z, rate_hz=RATE_HZ, **rows):
    """Features by name of one window, second of a batch so that rows mixed up show: acc_z, others 0 where not given."""
    signals = np.zeros((6, len(acc_z)))
    signals[2] = acc_z
    for name, row in rows.items():
        signals[["acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z"].index(name)] = row
    return dict(zip(NAMES, extract([1 + 2 * signals[:, ::-1], signals], rate_hz)[1].tolist(), strict=True))


def check(features, **expected):
    """Each named feature has the value expected, to 1e-11 of its size."""
    for name, value in expected.items():
        assert features[name] == pytest.approx(value, rel=1e-11, abs=1e-11), name
