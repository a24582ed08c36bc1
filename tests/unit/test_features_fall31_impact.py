"""fall31's size, suddenness and spread of acceleration: values by hand, each time and floor at its edge."""

import math

import numpy as np
import pytest

from tests.unit.fall31_window import G, check, features_of

log, sqrt = math.log, math.sqrt


def trembling(sizes):
    """10 m/s2, and above and below it by turns by the sizes: their mean is 10 wherever a size comes in pairs."""
    return 10.0 + np.asarray(sizes) * (-1.0) ** np.arange(len(sizes))


def test_step_has_hand_computed_features():
    """a is 1 for 2 s, then 3: mean and median 2, all deviations 1; the integral of a - mean falls to -2 and returns."""
    found = features_of(np.repeat([1.0, 3.0], 100))
    check(found, log_max_acc=log(3.1), log_max_dynamic_acc=log(1.1), log_peak_over_mad=log(1 / 1.1 + 0.1))
    check(found, log_kurtosis_acc=log(2), log_range_acc_1s=log(2.1), min_acc=1, min_acc_200ms=1)
    check(found, log_std_acc=log(1.05), log_median_dynamic_acc=log(1.05), log_std_acc_first=log(0.05))
    check(found, min_velocity=-2, range_velocity=2, tilt_first_last=0, max_tilt_2s=0)
    # the change over 40 ms, two samples, is 2 in two places of 198: 50 m/s3 there
    share = 2 / 198
    check(found, log_max_jerk=log(51), log_mean_jerk=log(50 * share + 1))
    check(found, log_std_jerk=log(50 * math.sqrt(share * (1 - share)) + 1))


def test_single_impact_stands_alone():
    """One sample of 40 in stillness: kurtosis of a Bernoulli variable, mad 0, a mean over 200 ms of a tenth of it."""
    m, top = 200, 40.0
    a = np.full(m, G)
    a[90] = top
    p = 1 / m
    found = features_of(a)
    check(found, log_max_acc=log(top + 0.1), log_peak_over_mad=log((top - G) / 0.1 + 0.1))
    check(found, log_range_acc_1s=log(top - G + 0.1), min_acc=G, log_median_dynamic_acc=log(0.05))
    check(found, log_kurtosis_acc=log((1 - 3 * p * (1 - p)) / (p * (1 - p)) + 1))
    check(found, log_max_acc_200ms=log(G + (top - G) / 10 + 0.1), log_max_dynamic_acc=log((top - G) * (1 - p) + 0.1))
    check(found, log_std_acc_first=log(0.05), log_std_acc_last=log(0.05))


def test_five_samples_by_hand():
    """1, 2, 4, 8, 16 at 25 Hz: 200 ms are all five, 40 ms and a quarter one; mean 6.2, median 4, median deviation 3."""
    a = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    found = features_of(a, 25.0)
    variance = (1 + 4 + 16 + 64 + 256) / 5 - 6.2**2
    fourth = (5.2**4 + 4.2**4 + 2.2**4 + 1.8**4 + 9.8**4) / 5
    check(found, log_max_acc=log(16.1), log_max_dynamic_acc=log(9.9), log_peak_over_mad=log(12 / 3.1 + 0.1))
    check(found, log_kurtosis_acc=log(fourth / variance**2 + 1), log_range_acc_1s=log(15.1))
    check(found, min_acc=1, min_acc_200ms=6.2, log_max_acc_200ms=log(6.3))
    check(found, log_std_acc=log(sqrt(variance) + 0.05), log_median_dynamic_acc=log(3.05))
    check(found, log_std_acc_first=log(0.05), log_std_acc_last=log(0.05))
    # changes of 1, 2, 4, 8 in 40 ms each
    check(found, log_max_jerk=log(8 * 25 + 1), log_mean_jerk=log(15 / 4 * 25 + 1))
    check(found, log_std_jerk=log(25 * sqrt(85 / 4 - (15 / 4) ** 2) + 1))


def test_median_of_an_even_count_is_the_middle_of_two():
    """1, 2, 4, 8: median 3, deviations 1, 1, 2, 5, of which the median is 1.5."""
    found = features_of([1.0, 2.0, 4.0, 8.0], 25.0)
    check(found, log_peak_over_mad=log(5 / 1.6 + 0.1), log_median_dynamic_acc=log(1.55))


@pytest.mark.parametrize(("apart", "swing"), [(1, 26.0), (77, 26.0), (199, 26.0), (200, 20.0)])
def test_swing_counts_within_one_second(apart, swing):
    """4, then 30, at 200 Hz: both within 200 samples in a row, or the larger way from 10 alone."""
    a = np.full(1000, 10.0)
    a[300], a[300 + apart] = 4.0, 30.0
    check(features_of(a, 200.0), log_range_acc_1s=log(swing + 0.1), min_acc=4)


@pytest.mark.parametrize(("rate_hz", "width"), [(200.0, 40), (50.0, 10), (23.0, 5), (21.0, 4)])
def test_200_ms_are_the_nearest_whole_number_of_samples(rate_hz, width):
    """One sample of 70 and one of 0 on a level of 10: the means of so many samples hold a share of each."""
    a = np.full(1000, 10.0)
    a[300], a[600] = 70.0, 0.0
    check(features_of(a, rate_hz), log_max_acc_200ms=log(10 + 60 / width + 0.1), min_acc_200ms=10 - 10 / width)


def test_knock_and_blow_of_known_length():
    """Weightless for 200 ms to the sample is 0, for one sample less a share; a blow of 100 ms is half its size."""
    a = np.full(1000, 10.0)
    a[300:340], a[600:620] = 0.0, 30.0
    check(features_of(a, 200.0), min_acc_200ms=0, log_max_acc_200ms=log(20.1))
    a[339] = 10.0
    check(features_of(a, 200.0), min_acc_200ms=10 / 40)


@pytest.mark.parametrize(("rate_hz", "step"), [(200.0, 8), (40.0, 2), (30.0, 1)])
def test_jerk_is_the_length_of_the_change_of_the_vector(rate_hz, step):
    """|acc| stays 10 and turns by a right angle at once: 10 sqrt 2, seen by `step` of 1000 pairs about 40 ms apart."""
    m = 1000 + step
    before = np.repeat([10.0, 0.0], [500, m - 500])
    found = features_of(before, rate_hz, acc_x=10 - before)
    size, share = 10 * sqrt(2) * rate_hz / step, step / 1000
    check(found, log_max_jerk=log(size + 1), log_mean_jerk=log(size * share + 1))
    check(found, log_std_jerk=log(size * sqrt(share * (1 - share)) + 1), log_std_acc=log(0.05))


def test_jerk_of_a_short_window_is_cut_to_it():
    """Four samples at 200 Hz last 15 ms from first to last: a change of 3 in them is 200 m/s3, the only one."""
    found = features_of([10.0, 10.0, 10.0, 13.0], 200.0)
    check(found, log_max_jerk=log(201), log_mean_jerk=log(201), log_std_jerk=0)


def test_dynamic_acceleration_is_told_by_direction_too():
    """z for three quarters, then x: the mean is (1/4, 3/4) G, and x lies 3/4 sqrt 2 G from it, though |acc| is G."""
    upright = np.repeat([G, G, G, 0.0], 50)
    found = features_of(upright, acc_x=G - upright)
    check(found, log_max_dynamic_acc=log(0.75 * sqrt(2) * G + 0.1), log_max_acc=log(G + 0.1))


def test_tremor_below_the_noise_has_no_kurtosis():
    """Deviations of .01 count against .05, not against themselves: .2^4."""
    found = features_of(trembling(np.full(200, 0.01)))
    check(found, log_kurtosis_acc=log(0.2**4 + 1), log_std_acc=log(0.06), log_median_dynamic_acc=log(0.06))


def test_each_quarter_has_its_own_spread():
    """Deviations of 1, 2, 3, 4 in the quarters: the whole has the root of 30 / 4, and the median is 2.5."""
    found = features_of(trembling(np.repeat([1.0, 2.0, 3.0, 4.0], 50)))
    check(found, log_std_acc_first=log(1.05), log_std_acc_last=log(4.05))
    check(found, log_std_acc=log(sqrt(7.5) + 0.05), log_median_dynamic_acc=log(2.55))


def test_tremor_in_the_first_quarter_is_none_in_the_last():
    """2 m/s2 in the first quarter alone: the root of a quarter of it in the whole."""
    found = features_of(trembling(np.repeat([2.0, 0.0, 0.0, 0.0], 50)))
    check(found, log_std_acc_first=log(2.05), log_std_acc_last=log(0.05), log_std_acc=log(1.05))


def test_quarters_end_at_their_edges():
    """203 samples have quarters of 50: what shakes right beside them is not theirs."""
    sizes = np.zeros(203)
    sizes[40:50], sizes[50:60], sizes[143:153], sizes[153:163] = 2.0, 6.0, 6.0, 4.0
    found = features_of(trembling(sizes))
    check(found, log_std_acc_first=log(2 * sqrt(0.2) + 0.05), log_std_acc_last=log(4 * sqrt(0.2) + 0.05))
