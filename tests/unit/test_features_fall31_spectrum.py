"""fall31's bands, evenness and period: sines and pulses whose spectrum and autocorrelation are known in closed form."""

import math

import numpy as np
import pytest

from tests.unit.fall31_window import RATE_HZ, check, features_of

log = math.log
BANDS = ("log_band_0p3_1p5_hz", "log_band_1p5_3p5_hz", "log_band_3p5_6_hz", "log_band_6_10_hz")


def check_bands(features, mean_squares):
    """The bands hold these mean squares, beside the noise of (.02 m/s2)^2."""
    check(features, **{name: log(power + 4e-4) for name, power in zip(BANDS, mean_squares, strict=True)})


def test_sine_has_the_textbook_power_evenness_and_period():
    """10 + 2 sin at 2.5 Hz: mean square 2, of which Hann puts 4, 1, 1 sixths in three of the 38 bins of .3-10 Hz."""
    t = np.arange(200) / RATE_HZ
    found = features_of(10 + 2 * np.sin(2 * np.pi * 2.5 * t))
    check(found, log_band_0p3_1p5_hz=log(4e-4), log_band_1p5_3p5_hz=log(2 + 4e-4), log_band_3p5_6_hz=log(4e-4))
    check(found, spectral_entropy=(2 / 3 * log(3 / 2) + 1 / 3 * log(6)) / log(38))
    check(found, log_std_acc=log(math.sqrt(2) + 0.05), log_kurtosis_acc=log(1.5 + 1))
    # the first repetition lies .4 s back, where 180 of 200 samples overlap
    check(found, autocorrelation_peak=0.9)


def test_each_band_has_the_power_of_its_sine():
    """Sines of 1, 2, 3, 4 m/s2 at 1, 2.5, 5, 8 Hz: mean squares of half a square each."""
    t = np.arange(200) / RATE_HZ
    sines = [size * np.sin(2 * np.pi * hertz * t + size) for size, hertz in ((1, 1.0), (2, 2.5), (3, 5.0), (4, 8.0))]
    a = 20 + np.sum(sines, axis=0)
    check_bands(features_of(np.full(200, 6.0), acc_y=np.sqrt(a**2 - 36)), [0.5, 2.0, 4.5, 8.0])


@pytest.mark.parametrize(("hertz", "band"), [(1.0, 0), (2.5, 1), (5.0, 2), (8.0, 3)])
def test_sine_of_one_band_is_none_in_the_others(hertz, band):
    """10 + 3 sin: 4.5 in its own band at any rate, 0 in the others, and three bins of 38 share it."""
    for rate_hz in (25.0, 50.0, 200.0):
        t = np.arange(round(4 * rate_hz)) / rate_hz
        found = features_of(10 + 3 * np.sin(2 * np.pi * hertz * t), rate_hz)
        check_bands(found, [4.5 if number == band else 0.0 for number in range(4)])
        check(found, spectral_entropy=(2 / 3 * log(3 / 2) + 1 / 3 * log(6)) / log(38))


@pytest.mark.parametrize(
    ("hertz", "sixths"),
    [(0.3, (5, 0, 0, 0)), (1.5, (1, 5, 0, 0)), (3.5, (0, 1, 5, 0)), (6.0, (0, 0, 1, 5)), (10.0, (0, 0, 0, 1))],
)
def test_bands_meet_at_their_edges(hertz, sixths):
    """A sine of 6 (m/s2)^2 at an edge, bins .01 Hz apart: a sixth lies below, five sixths at and above, 970 bins."""
    t = np.arange(5000) / RATE_HZ
    found = features_of(20 + math.sqrt(12) * np.sin(2 * np.pi * hertz * t))
    check_bands(found, sixths)
    shares = {0.3: (4 / 5, 1 / 5), 10.0: (1,)}.get(hertz, (1 / 6, 4 / 6, 1 / 6))
    check(found, spectral_entropy=-sum(share * log(share) for share in shares) / log(970))


@pytest.mark.parametrize("m", [4, 5])
def test_no_bin_has_no_power_and_no_evenness(m):
    """At 50 Hz the bins of 4 samples lie 12.5 Hz apart, of 5 samples 10 Hz: none within the bands."""
    found = features_of(10.0 + np.arange(m) ** 2)
    check_bands(found, [0.0] * 4)
    check(found, spectral_entropy=0)


def test_one_bin_is_not_even():
    """Four samples at 25 Hz have one bin up to 10 Hz, at 6.25: the square of a quarter sine through Hann's taper."""
    found = features_of([9.0, 11.0, 11.0, 9.0], 25.0)
    # tapered 0, .5, 1, -.5: |(0 - 1) + i (-.5 - .5)|^2 = 2, times 2 / (.375 * 16)
    check_bands(found, [0.0, 0.0, 0.0, 2 / 3])
    check(found, spectral_entropy=0)


def test_two_bins_are_as_even_as_their_shares():
    """One period in six samples at 25 Hz: bins at 4.2 and 8.3 Hz with four parts and one of Hann's six, one at 0."""
    found = features_of(10 + 2 * np.sin(2 * np.pi * np.arange(6) / 6), 25.0)
    check_bands(found, [0.0, 0.0, 2 * 4 / 6, 2 * 1 / 6])
    check(found, spectral_entropy=(4 / 5 * log(5 / 4) + 1 / 5 * log(5)) / log(2))


@pytest.mark.parametrize("size", [30.0, -6.0])
@pytest.mark.parametrize(("place", "taper", "slowest"), [(0, 0.0, 1 / 16), (25, 0.5, 5 / 16), (50, 1.0, 9 / 16)])
def test_impact_is_flat_and_counts_by_its_place_under_the_taper(size, place, taper, slowest):
    """One sample of 100: every bin has 2 (size taper)^2 / (.375 100^2), but the first meets the mean's, size / 4.

    |taper exp(-2 pi i place / 100) + 1/4|^2 is the square of 1/4, of 1/2 and 1/4 at right angles, of 1/4 - 1.
    """
    a = np.full(100, 10.0)
    a[place] += size
    found = features_of(a)
    one = 2 * size**2 / (0.375 * 100**2)
    # bins .5 Hz apart: the first and 1, 4, 5, 8 more below 1.5, 3.5, 6, 10 Hz
    check_bands(found, [one * (slowest + taper**2), *(one * n * taper**2 for n in (4, 5, 8))])
    total = slowest + 18 * taper**2
    shares = [slowest / total, *[taper**2 / total] * 18]
    check(found, spectral_entropy=-sum(share * log(share) for share in shares if share) / log(19))


def test_period_of_five_samples_is_their_only_lag():
    """1, 2, 4, 8, 16 at 25 Hz: .3 s and more are cut to 4 samples, the first times the last, against a mean of 6.2."""
    found = features_of([1.0, 2.0, 4.0, 8.0, 16.0], 25.0)
    check(found, autocorrelation_peak=-5.2 * 9.8 / (5.2**2 + 4.2**2 + 2.2**2 + 1.8**2 + 9.8**2))


@pytest.mark.parametrize(("rate_hz", "lag", "peak"), [
    (200.0, 59, 0.0), (200.0, 60, 0.5), (200.0, 200, 0.5), (200.0, 400, 0.5), (200.0, 401, 0.0),
    (50.0, 14, 0.0), (50.0, 15, 0.5), (50.0, 100, 0.5), (50.0, 101, 0.0),
])  # fmt: skip
def test_repetition_counts_at_lags_of_300_ms_to_2_s(rate_hz, lag, peak):
    """A pulse up and down in |a|, and again: half of the whole meets itself at that lag, less than 0 beside it."""
    a = np.full(round(2.25 * rate_hz), 10.0)
    a[[5, 5 + lag]], a[[6, 6 + lag]] = 11.0, 9.0
    check(features_of(np.full(a.size, 6.0), rate_hz, acc_x=np.sqrt(a**2 - 36)), autocorrelation_peak=peak)


@pytest.mark.parametrize("level", [0.1, 0.7, 9.80665])
def test_rounding_at_rest_is_no_motion(level):
    """A level whose mean rounds: no evenness and no period in what is left."""
    check(features_of(np.full(225, level)), spectral_entropy=0, autocorrelation_peak=0)


@pytest.mark.parametrize(("size", "peak"), [(4e-9, 0.0), (6e-9, 0.9)])
def test_motion_below_a_billionth_is_rest(size, peak):
    """10 m/s2 and a sine whose range is below or above 1e-9 of it: no sensor has that many digits."""
    t = np.arange(200) / RATE_HZ
    found = features_of(10 + size * np.sin(2 * np.pi * 2.5 * t + 0.5))
    assert found["autocorrelation_peak"] == pytest.approx(peak, abs=1e-5)
    assert (found["spectral_entropy"] > 0) == (peak > 0)
