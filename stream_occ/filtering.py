"""Causal low-pass filtering of a stream with carried state: any cutting of a recording gives the same bits.

The sections are those of scipy.signal (`sos` rows b0, b1, b2, 1, a1, a2; states as `sosfilt(..., axis=0)` keeps them),
but nothing here needs scipy: the running service imports numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import pi, tan
from typing import TypeVar

import numpy as np

from stream_occ.engines import warmed
from stream_occ.samples import FloatArray

__all__ = ["butter1_lowpass_sos", "sos_filter", "sos_initial_state"]

# From this many columns on, numpy rows beat Python floats column by column (12 to 20 break even, by machine).
_WIDE_COLUMNS = 32

_Value = TypeVar("_Value", float, FloatArray)


def butter1_lowpass_sos(cutoff_hz: float, rate_hz: float) -> FloatArray:
    """Section (1, 6) of the first-order Butterworth low-pass whose gain at cutoff_hz is 1/sqrt(2) and at 0 Hz is 1.

    Bilinear transform of 1/(s + 1) with the cut-off prewarped: k = tan(pi cutoff/rate), b = k/(1 + k) (1, 1),
    a = (1, (k - 1)/(k + 1)). Equals `scipy.signal.butter(1, cutoff_hz, fs=rate_hz, output="sos")` to rounding.
    Raises ValueError unless 0 < cutoff_hz < rate_hz / 2.

    >>> butter1_lowpass_sos(12.5, 50.0).round(12).tolist()
    [[0.5, 0.5, 0.0, 1.0, -0.0, 0.0]]
    """
    if not 0.0 < cutoff_hz < rate_hz / 2.0:
        raise ValueError(
            f"cutoff_hz must be above 0 and below half of rate_hz = {rate_hz:g}; got {cutoff_hz:g}. "
            "Lower the cut-off, raise the rate, or take a feature set without filter."
        )
    k = tan(pi * cutoff_hz / rate_hz)
    gain = k / (1.0 + k)
    return np.array([[gain, gain, 0.0, 1.0, (k - 1.0) / (k + 1.0), 0.0]])


def sos_initial_state(sos: FloatArray, first_sample: FloatArray) -> FloatArray:
    """State (n_sections, 2, channels) of a filter that has seen first_sample (channels,) for ever: no start-up step.

    Equals `scipy.signal.sosfilt_zi(sos)[:, :, None] * first_sample` to rounding. Raises ValueError unless sos is
    (n_sections, 6) with a0 = 1 in each section.
    """
    sos = np.asarray(sos, dtype=np.float64)
    if sos.ndim != 2 or sos.shape[1] != 6 or not bool(np.all(sos[:, 3] == 1.0)):
        raise ValueError(
            f"sos must have shape (n_sections, 6) and a0 = 1; got shape {sos.shape}. Normalise the sections."
        )
    unit = np.empty((sos.shape[0], 2))
    step = 1.0  # what a unit step has become when it reaches the section
    for state, (b0, b1, b2, _, a1, a2) in zip(unit, sos.tolist(), strict=True):
        gain = (b0 + b1 + b2) / (1.0 + a1 + a2)
        state[1] = (b2 - a2 * gain) * step
        state[0] = (b1 - a1 * gain) * step + state[1]
        step *= gain
    initial: FloatArray = unit[:, :, np.newaxis] * np.asarray(first_sample, dtype=np.float64)
    return initial


def sos_filter(sos: FloatArray, x: FloatArray, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Filtered samples (n, channels) of x (n, channels), and the state to go on with; nothing given is changed.

    Filtering x in pieces, state carried, gives the bits of filtering it whole, and a channel's bits do not depend on
    the channels beside it: blocks of equal length of many devices may be filtered side by side as
    (n, channels * devices). Each section is a transposed direct form II,

        y = b0 x + z1,   z1' = (b1 - a1 b0) x - a1 z1 + z2,   z2' = (b2 - a2 b0) x - a2 z1,

    where only the recursion in z runs sample by sample. A first-order section has no second state: its z2 is
    returned as 0.
    """
    if x.shape[0] == 0:
        return x.copy(), state.copy()
    kernels = warmed("_stream")
    if kernels is not None:
        filtered: tuple[FloatArray, FloatArray] = kernels.sos_filter(sos, x, state)
        return filtered
    after = np.zeros_like(state)
    for i, (b0, b1, b2, _, a1, a2) in enumerate(sos.tolist()):
        drive1 = (b1 - a1 * b0) * x
        if b2 == 0.0 and a2 == 0.0:
            before = _run_first_order(drive1, a1, state[i, 0])
        else:
            before, after[i, 1] = _run_second_order(drive1, (b2 - a2 * b0) * x, a1, a2, state[i])
        after[i, 0] = before[-1]
        x = b0 * x
        x += before[:-1]
    return x, after


def _run_first_order(drive: FloatArray, a1: float, z: FloatArray) -> FloatArray:
    """States (n + 1, channels) before each sample and after the last."""
    if drive.shape[1] >= _WIDE_COLUMNS:
        return np.array(_first_order(drive, a1, z))
    columns = zip(drive.T.tolist(), z.tolist(), strict=True)
    return np.array([_first_order(column, a1, start) for column, start in columns]).T


def _run_second_order(
    drive1: FloatArray, drive2: FloatArray, a1: float, a2: float, z: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """States z1 (n + 1, channels) before each sample and after the last, and the last z2 (channels,)."""
    if drive1.shape[1] >= _WIDE_COLUMNS:
        wide, last = _second_order(drive1, drive2, a1, a2, z[0], z[1])
        return np.array(wide), last
    columns = zip(drive1.T.tolist(), drive2.T.tolist(), *z.tolist(), strict=True)
    runs = [_second_order(first, second, a1, a2, z1, z2) for first, second, z1, z2 in columns]
    return np.array([run[0] for run in runs]).T, np.array([run[1] for run in runs])


# The two recursions below serve Python floats and numpy rows alike: the same operations in the same order, so the
# same bits. Floats take about half the time at 6 channels.


def _first_order(drive: Iterable[_Value], a1: float, z: _Value) -> list[_Value]:
    states = [z]
    for g in drive:
        z = g - a1 * z
        states.append(z)
    return states


def _second_order(
    drive1: Iterable[_Value], drive2: Iterable[_Value], a1: float, a2: float, z1: _Value, z2: _Value
) -> tuple[list[_Value], _Value]:
    states = [z1]
    for g1, g2 in zip(drive1, drive2, strict=True):
        z1, z2 = (g1 - a1 * z1) + z2, g2 - a2 * z1
        states.append(z1)
    return states, z2
