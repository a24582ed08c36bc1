"""fall31 as a whole: its order, at rest, against a loop-written twin, turned on the body, and at other rates."""

import math

import numpy as np
import pytest

from stream_occ.features import fall31, load
from stream_occ.features.fall31 import FEATURE_SET, NAMES
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.windowing import cut_windows
from tests.reference.features_fall31_loop import features_loop
from tests.unit.fall31_window import RATE_HZ, G, check, extract, features_of

log = math.log

# fmt: off
GOLDEN_ORDER = [
    "log_max_acc", "log_max_dynamic_acc", "log_peak_over_mad", "log_kurtosis_acc",
    "log_range_acc_1s", "min_acc", "min_acc_200ms", "log_max_acc_200ms",
    "log_max_jerk", "log_mean_jerk", "log_std_jerk",
    "log_std_acc", "log_median_dynamic_acc", "log_std_acc_first", "log_std_acc_last",
    "log_max_gyr", "log_mean_gyr", "log_std_gyr", "log_mean_gyr_first", "log_mean_gyr_last", "log_turn_1s",
    "tilt_first_last", "max_tilt_2s", "min_velocity", "range_velocity",
    "log_band_0p3_1p5_hz", "log_band_1p5_3p5_hz", "log_band_3p5_6_hz", "log_band_6_10_hz", "spectral_entropy",
    "autocorrelation_peak",
]
# fmt: on


def walk(n, m, rate_hz=RATE_HZ, seed=0):
    """Random windows like a phone in a pocket: gravity that turns, steps, an impact, some rest."""
    rng = np.random.default_rng(seed)
    t = np.arange(m) / rate_hz
    signals = rng.normal(size=(n, 6, m)) * rng.choice([0.02, 0.8], size=(n, 1, 1))
    tilt = rng.uniform(0, 2, size=(n, 1)) / (1 + np.exp(-4 * (t - t[-1] / 2)))
    signals[:, 1] += G * np.cos(tilt) + 3 * np.sin(2 * np.pi * 1.8 * t + rng.uniform(0, 6, size=(n, 1)))
    signals[:, 2] += G * np.sin(tilt)
    signals[:, :3] += 40 * np.exp(-0.5 * ((t - t[-1] / 2) / 0.04) ** 2) * rng.normal(size=(n, 3, 1))
    return signals


def test_there_are_31_unique_names_in_golden_order():
    """Models refer to columns by place: the order never changes within a version."""
    assert list(NAMES) == GOLDEN_ORDER
    assert len(set(NAMES)) == 31
    assert load("fall31") is FEATURE_SET
    assert (FEATURE_SET.version, FEATURE_SET.lowpass_hz, FEATURE_SET.min_rate_hz) == (1, 10.0, 20.0)
    assert (FEATURE_SET.min_stream_hz, FEATURE_SET.min_window_s) == (22.0, 3.0)


def test_each_family_fills_as_many_columns_as_it_names():
    """The table of families is the only list there is: its functions and names belong together."""
    signals = fall31.prepare(walk(3, 100), RATE_HZ)
    for family in fall31.FAMILIES:
        assert family.compute(signals).shape == (3, len(family.names))


@pytest.mark.parametrize("m", [4, 5, 200, 225])
def test_window_at_rest_has_its_levels_and_nothing_else(m):
    """|(3, -4, 12)| = 13 and |(.2, .3, -.6)| = .7: every spread is 0, so that the floors alone are left."""
    found = features_of(np.full(m, 12.0), acc_x=3, acc_y=-4, gyr_x=0.2, gyr_y=0.3, gyr_z=-0.6)
    check(found, log_max_acc=log(13.1), min_acc=13, min_acc_200ms=13, log_max_acc_200ms=log(13.1))
    check(found, log_max_dynamic_acc=log(0.1), log_peak_over_mad=log(0.1), log_range_acc_1s=log(0.1))
    check(found, log_kurtosis_acc=0, log_max_jerk=0, log_mean_jerk=0, log_std_jerk=0)
    for name in ("log_std_acc", "log_median_dynamic_acc", "log_std_acc_first", "log_std_acc_last"):
        check(found, **{name: log(0.05)})
    check(found, log_max_gyr=log(0.75), log_std_gyr=log(0.02))
    for name in ("log_mean_gyr", "log_mean_gyr_first", "log_mean_gyr_last", "log_turn_1s"):
        check(found, **{name: log(0.72)})
    check(found, tilt_first_last=0, max_tilt_2s=0, min_velocity=0, range_velocity=0)
    check(found, spectral_entropy=0, autocorrelation_peak=0)
    for name in NAMES:
        if "band" in name:
            check(found, **{name: log(4e-4)})


@pytest.mark.parametrize(("m", "rate_hz"), [(60, 25.0), (81, 50.0), (225, 50.0), (40, 21.0)])
def test_loop_written_twin_agrees(m, rate_hz):
    """Every feature, to rounding, on windows longer and shorter than the longest time that a feature looks at."""
    signals = walk(3, m, rate_hz, seed=m)
    expected = np.array([features_loop(window, rate_hz) for window in signals])
    np.testing.assert_allclose(extract(signals, rate_hz), expected, rtol=1e-9, atol=1e-7)


def test_turning_the_sensor_changes_nothing():
    """However it is worn: proper and mirrored frames, to the rounding of the rotation (angles to its square root)."""
    signals = walk(40, 225)
    before = extract(signals)
    for seed in range(5):
        turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
        turned = np.concatenate([turn @ signals[:, :3], turn @ signals[:, 3:]], axis=1)
        np.testing.assert_allclose(extract(turned), before, rtol=1e-9, atol=1e-9)


def lives(rate_hz, n=24, seconds=30.0):
    """The same n half minutes of smooth motion, sampled at rate_hz: gait, turns, rest, sitting down, impacts."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    for seed in range(n):
        rng = np.random.default_rng(seed)
        effort = rng.choice([0.05, 1.0, 3.0])
        acc, gyr = np.zeros((2, 3, t.size))
        tilt = sum(rng.uniform(-1.2, 1.2) / (1 + np.exp(-5 * (t - rng.uniform(0, seconds)))) for _ in range(6))
        acc[1], acc[2] = G * np.cos(tilt), G * np.sin(tilt)
        for hertz in rng.uniform(0.7, 7.0, size=5):
            phase = rng.uniform(0, 6, size=(3, 1))
            acc += effort / hertz * rng.normal(size=(3, 1)) * np.sin(2 * np.pi * hertz * t + phase)
            gyr += 0.3 * effort / hertz * rng.normal(size=(3, 1)) * np.sin(2 * np.pi * hertz * t + phase)
        for _ in range(rng.integers(0, 6)):
            bump = np.exp(-0.5 * ((t - rng.uniform(0, seconds)) / rng.uniform(0.03, 0.1)) ** 2)
            acc += rng.uniform(3, 30) * rng.normal(size=(3, 1)) * bump
        yield t, np.concatenate([acc, gyr])


def windows_of_lives(sampled_hz, model_hz):
    """Features of 5 s windows, through the project's resampler and low-pass at the model's rate."""
    sos = butter1_lowpass_sos(FEATURE_SET.lowpass_hz, model_hz)
    found = []
    for t, signals in lives(sampled_hz):
        t_ns = np.round(t * NS_PER_S).astype(np.int64)
        block = SampleBlock("dev", t_ns, signals[:3].T.copy(), signals[3:].T.copy())
        batch = cut_windows(block, rate_hz=model_hz, window_s=5.0, hop_s=1.0, sos=sos)
        found.append(FEATURE_SET.extract(batch)[:25])
    return np.concatenate(found)


@pytest.mark.parametrize("is_resampled", [True, False])
@pytest.mark.parametrize("sampled_hz", [25.0, 100.0, 200.0])
def test_sampling_rate_shows_little(sampled_hz, is_resampled):
    """Resampled to the model's 50 Hz, or a model at that rate: each feature within a median of .25 robust z."""
    reference = windows_of_lives(50.0, 50.0)
    low, high = np.quantile(reference, [0.25, 0.75], axis=0)
    found = windows_of_lives(sampled_hz, 50.0 if is_resampled else sampled_hz)
    z = np.abs(found - reference) / ((high - low) / 1.349)
    assert found.shape == reference.shape
    assert (np.median(z, axis=0) < 0.25).all(), dict(zip(NAMES, np.median(z, axis=0).round(2), strict=True))


def test_stream_too_slow_is_one_line():
    """At 20 Hz the low-pass has no room."""
    with pytest.raises(ValueError, match=r"more than 20 Hz for fall31; got 20 Hz"):
        extract(walk(1, 100), 20.0)
