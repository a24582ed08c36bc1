"""Causal filtering with carried state: against scipy, against the closed form, and in pieces."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from stream_occ.filtering import butter1_lowpass_sos, sos_filter, sos_initial_state

rates = st.floats(1.0, 1000.0)
shares = st.floats(0.01, 0.99)  # of the Nyquist frequency


def designs():
    """First order by scipy and by us; orders 2 to 4; a first-order section before a second-order one."""
    return {
        "ours": butter1_lowpass_sos(20.0, 50.0),
        "slow": butter1_lowpass_sos(0.5, 50.0),
        "second": signal.butter(2, 5.0, fs=50.0, output="sos"),
        "third": signal.butter(3, 5.0, fs=50.0, output="sos"),
        "fourth": signal.butter(4, 5.0, fs=50.0, output="sos"),
        "notch": np.array([[*np.concatenate(signal.iirnotch(10.0, 5.0, fs=50.0))]]),
    }


def stream(n, channels=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels)) * 5 + 9.81


def bits(x):
    return np.ascontiguousarray(x).tobytes()


@given(rates, shares)
def test_butterworth_equals_scipys_design(rate_hz, share):
    """The closed form gives scipy's coefficients to rounding."""
    cutoff_hz = share * rate_hz / 2
    expected = signal.butter(1, cutoff_hz, fs=rate_hz, output="sos")
    np.testing.assert_allclose(butter1_lowpass_sos(cutoff_hz, rate_hz), expected, rtol=0, atol=1e-15)


def test_butterworth_halves_the_power_at_the_cutoff():
    """Gain 1 at 0 Hz, 1/sqrt 2 at the cut-off, 0 at half the rate: straight from the transfer function."""
    b0, b1, _, _, a1, _ = butter1_lowpass_sos(20.0, 50.0)[0].tolist()

    def gain(frequency_hz):
        z = complex(math.cos(2 * math.pi * frequency_hz / 50), -math.sin(2 * math.pi * frequency_hz / 50))
        return abs((b0 + b1 * z) / (1 + a1 * z))

    assert gain(0.0) == pytest.approx(1.0, abs=1e-15)
    assert gain(20.0) == pytest.approx(1 / math.sqrt(2), abs=1e-15)
    assert gain(25.0) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("cutoff_hz", [0.0, -1.0, 25.0, 60.0, math.nan])
def test_cutoff_outside_the_band_is_refused_in_one_line(cutoff_hz):
    """A cut-off must lie between 0 and half of the rate."""
    with pytest.raises(ValueError, match=r"^cutoff_hz must be above 0 and below half of rate_hz = 50; got .*filter\.$"):
        butter1_lowpass_sos(cutoff_hz, 50.0)


@pytest.mark.parametrize("name", designs())
def test_initial_state_is_scipys_times_the_first_sample(name):
    """The state is sosfilt_zi's, scaled by each channel's first sample."""
    sos, first = designs()[name], np.array([9.81, -3.0, 0.0, 1e-3, 2.5, -7.0])
    expected = signal.sosfilt_zi(sos)[:, :, np.newaxis] * first
    # sosfilt_zi solves linear systems; 1e-10 leaves room for their condition (the slow poles lie near 1).
    np.testing.assert_allclose(sos_initial_state(sos, first), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", designs())
def test_constant_stream_stays_what_it_is_from_its_first_sample(name):
    """All designs pass 0 Hz with gain 1, and the initial state knows no start-up step."""
    x = np.full((40, 6), 9.81) * [1, -1, 0, 2, 3, 0.1]
    y, _ = sos_filter(designs()[name], x, sos_initial_state(designs()[name], x[0]))
    np.testing.assert_allclose(y, x, rtol=1e-11)


@pytest.mark.parametrize("name", designs())
@pytest.mark.parametrize("channels", [1, 6, 60])
def test_filter_agrees_with_scipy(name, channels):
    """Samples and final state equal scipy.signal.sosfilt's to 1e-12 of the signal's size, narrow or wide."""
    sos, x = designs()[name], stream(500, channels)
    state = sos_initial_state(sos, x[0])
    expected, expected_state = signal.sosfilt(sos, x, axis=0, zi=state)
    y, after = sos_filter(sos, x, state)
    size = np.abs(x).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(after, expected_state, rtol=0, atol=1e-12 * max(size, np.abs(expected_state).max()))


def test_step_response_is_the_hand_computed_one():
    """With cut-off at a quarter of the rate the section is the mean of two neighbours: a step takes two samples."""
    sos = butter1_lowpass_sos(12.5, 50.0)  # tan(pi/4) = 1: b = (1/2, 1/2), a1 = 0 to rounding
    x = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    y, _ = sos_filter(sos, x, sos_initial_state(sos, x[0]))
    np.testing.assert_allclose(y[:, 0], [0, 0, 0.5, 1, 1], atol=1e-15)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(designs())),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 80), max_size=12),
    st.sampled_from([6, 36]),
    st.booleans(),
)
def test_any_cutting_gives_the_same_bits(name, seed, points, channels, is_sparse):
    """Pieces of any length, empty ones too, with the state carried, equal the whole bit for bit."""
    sos, x = designs()[name], stream(80, channels, seed)
    if is_sparse:  # zeros of both signs, whose sign must not depend on the cutting either
        x = np.where(np.random.default_rng(seed).random(x.shape) < 0.7, np.copysign(0.0, x - 9.81), x)
    state = start = sos_initial_state(sos, x[0])
    whole, last = sos_filter(sos, x, start)
    pieces = []
    bounds = [0, *sorted(points), 80]
    for begin, end in pairwise(bounds):
        y, state = sos_filter(sos, x[begin:end], state)
        pieces.append(y)
    assert bits(np.concatenate(pieces)) == bits(whole)
    assert bits(state) == bits(last)


@pytest.mark.parametrize("name", designs())
def test_devices_filtered_side_by_side_keep_their_bits(name):
    """Forty devices as 240 columns give what each gives alone: floats and numpy rows round alike."""
    sos = designs()[name]
    blocks = [stream(30, 6, seed) for seed in range(40)]
    wide = np.concatenate(blocks, axis=1)
    y, after = sos_filter(sos, wide, sos_initial_state(sos, wide[0]))
    for i, x in enumerate(blocks):
        alone, state = sos_filter(sos, x, sos_initial_state(sos, x[0]))
        columns = slice(6 * i, 6 * i + 6)
        assert bits(alone) == bits(y[:, columns])
        assert bits(state) == bits(after[:, :, columns])


def test_memory_layout_does_not_change_the_bits():
    """A transposed or strided block gives the bits of its contiguous copy."""
    sos, x = designs()["ours"], stream(64)
    state = sos_initial_state(sos, x[0])
    expected, _ = sos_filter(sos, x, state)
    assert bits(sos_filter(sos, np.asfortranarray(x), state)[0]) == bits(expected)
    assert bits(sos_filter(sos, np.repeat(x, 2, axis=1)[:, ::2], state)[0]) == bits(expected)


def test_what_is_given_is_left_alone():
    """Neither samples nor state are changed, and what is returned shares no memory with them."""
    sos, x = designs()["fourth"], stream(20)
    state = sos_initial_state(sos, x[0])
    before = bits(x), bits(state)
    for block in (x, x[:0]):
        y, after = sos_filter(sos, block, state)
        assert not np.shares_memory(y, block)
        assert not np.shares_memory(after, state)
    assert (bits(x), bits(state)) == before


def test_sections_that_are_not_normalised_are_refused():
    """a0 must be 1, and a section has six coefficients."""
    for sos in (butter1_lowpass_sos(5.0, 50.0) * 2, np.ones((1, 5)), np.ones(6)):
        with pytest.raises(ValueError, match=r"^sos must have shape \(n_sections, 6\) and a0 = 1; got shape"):
            sos_initial_state(sos, np.zeros(6))
