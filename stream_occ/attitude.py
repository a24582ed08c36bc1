"""Whether accelerometer and gyroscope tell of one motion: axes that changed place or sign, and gravity of another size.

The gyroscope's rotation carries every acceleration of a window into the frame of its first sample. There gravity
stands still and has its size, whatever the wearer does: what moves back and forth has no mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from stream_occ.samples import STANDARD_GRAVITY_MS2, BoolArray, FloatArray, IntArray

PIECE_S = 0.25  # a window is halved at the end of each such piece, none nearer to its ends than two of them
# How far gravity may turn, in the fixed frame, from one part to the other, by pieces in the shorter one (rad): 60, 45
# and 35 degrees; a mean over a shorter time holds more of what is not gravity. JUMP_RAD: by that much it is an axis.
_MARGIN_RAD = np.radians([60.0, 45.0, 35.0])
JUMP_RAD, JUMP_PIECES = 1.0, 4
LEAST_S = 2.0  # of a window: for less a body may well be lighter than it is, or heavier
RATE_HZ = 25.0  # at which rotation is followed, at least
# The spread of gravity, 1 - |mean a|^2 / mean |a|^2, is by so much, and so many times, smaller for other axes.
SPREAD_MARGIN, SPREAD_RATIO = 0.1, 2.0
# Times gravity. Below the first no window of any set is in the mean of |a|, above the second none in |mean a| in the
# fixed frame; one that is below the third there has lost it.
LEAST_MEAN, MOST_GRAVITY, LEAST_GRAVITY = 0.8, 1.25, 0.5
_BLOCK = 12  # steps of rotation multiplied one after another: about the root of their number
_CHUNK = 64


def _turns() -> FloatArray:
    """All 24 ways to turn right-handed axes into one another (24, 9), none first."""
    found = [
        np.diag(signs)[list(order)]
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if np.linalg.det(np.diag(signs)[list(order)]) > 0
    ]
    return np.array(found).reshape(24, 9)


_TURNS = _turns()


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Of n windows: whether gravity jumps so far that an axis changed, whether it jumps at all, whether it is of
    another size than any body shows, gravity in m/s2, NaN where it was not looked at, and int64 1 where other axes
    explain the window better by far, -1 where its own do well, or 0."""

    is_turned: BoolArray
    is_jump: BoolArray
    is_odd: BoolArray
    gravity_ms2: FloatArray
    votes: IntArray


def agreement(signals: FloatArray, mean_ms2: FloatArray, *, rate_hz: float) -> Agreement:
    """What the windows (n, 6, m) show; mean_ms2: their mean |a| (n,). One with a NaN, or shorter than LEAST_S, shows
    nothing."""
    n, size = len(signals), mean_ms2 / STANDARD_GRAVITY_MS2
    is_turned, is_jump = np.zeros((2, n), dtype=np.bool_)
    n_piece = max(1, round(PIECE_S * rate_hz))
    is_long = signals.shape[2] >= max(LEAST_S * rate_hz, 4 * n_piece)
    found = Agreement(
        is_turned, is_jump, is_long & (size < LEAST_MEAN), np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    )
    if not is_long:
        return found
    with np.errstate(all="ignore"):
        rows = np.flatnonzero(_is_worth_a_look(signals[:, :3], n_piece) | (size > MOST_GRAVITY))
        for start in range(0, rows.size, _CHUNK):
            some = rows[start : start + _CHUNK]
            _look(found, some, np.ascontiguousarray(signals[some]), n_piece, rate_hz)
    return found


def _is_worth_a_look(acc: FloatArray, n_piece: int) -> BoolArray:
    """In which windows (n, 3, m) the mean acceleration turns in the device's own frame, or is small: of the others,
    there is nothing to compare."""
    before, after = _parts(acc, n_piece)
    total = before[..., -1] + after[..., -1]
    least = LEAST_GRAVITY * STANDARD_GRAVITY_MS2 * n_piece * (before.shape[-1] + 3)
    is_turned = np.logical_or.reduce(_cosine(before, after) < _least_cosine(before.shape[-1]), axis=1)
    worth: BoolArray = is_turned | ((total * total).sum(axis=1) < least**2)
    return worth


def _least_cosine(n_splits: int) -> FloatArray:
    """Cosines (n_splits,) of the margins."""
    n_before = np.arange(2, 2 + n_splits)
    cosine: FloatArray = np.cos(_MARGIN_RAD[np.minimum(np.minimum(n_before, n_before[::-1]), 4) - 2])
    return cosine


def _parts(acc: FloatArray, n_piece: int) -> tuple[FloatArray, FloatArray]:
    """Sums (n, 3, n_splits) of accelerations (n, 3, m) before and after each split, of whole pieces alone."""
    n_pieces = acc.shape[2] // n_piece
    pieces = np.ascontiguousarray(acc[:, :, acc.shape[2] - n_pieces * n_piece :])
    sums = np.cumsum(np.add.reduce(pieces.reshape(len(acc), 3, n_pieces, n_piece), axis=-1), axis=-1)
    before = sums[:, :, 1:-2]
    return before, sums[:, :, -1:] - before


def _cosine(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cosines (n, k) of the angles between vectors (n, 3, k); NaN for a vector of no length."""
    cosine: FloatArray = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return cosine


def _look(found: Agreement, rows: IntArray, signals: FloatArray, n_piece: int, rate_hz: float) -> None:
    """Fills in what the rows' windows (k, 6, m) show."""
    n_mean = max(1, int(rate_hz / RATE_HZ))
    k, m = len(signals), signals.shape[2] // n_mean
    few = signals[:, :, signals.shape[2] - m * n_mean :].reshape(k, 6, m, n_mean).mean(axis=-1)
    acc, gyr = np.ascontiguousarray(few[:, :3].transpose(0, 2, 1)), few[:, 3:]
    turning = rotations(gyr, rate_hz=rate_hz / n_mean)
    fixed = np.ascontiguousarray((turning @ acc[..., None])[..., 0].transpose(0, 2, 1))
    found.is_jump[rows], found.is_turned[rows] = _jumps(fixed, max(1, round(n_piece / n_mean)))
    gravity, raw = (np.sqrt((mean**2).sum(axis=1)) / STANDARD_GRAVITY_MS2 for mean in (fixed.mean(2), acc.mean(1)))
    larger = np.maximum(gravity, raw)
    found.gravity_ms2[rows] = larger * STANDARD_GRAVITY_MS2
    square = (acc * acc).sum(axis=2).mean(axis=1) / STANDARD_GRAVITY_MS2**2
    own, still = 1 - gravity**2 / square, 1 - raw**2 / square
    is_right = (still - own > SPREAD_MARGIN) & (still > SPREAD_RATIO * own)
    is_wrong = ~is_right & (own > SPREAD_MARGIN)
    some = np.flatnonzero(is_wrong)
    back = rotations(-gyr[some], rate_hz=rate_hz / n_mean)  # a mirrored device turns the other way
    best = np.maximum(_gravity(turning[some], acc[some])[:, 1:].max(axis=1), _gravity(back, acc[some]).max(axis=1))
    other = 1 - best / square[some]
    is_wrong[some] = (own[some] - other > SPREAD_MARGIN) & (own[some] > SPREAD_RATIO * other)
    found.votes[rows] = is_wrong.astype(np.int64) - is_right
    found.is_odd[rows] |= (larger < LEAST_GRAVITY) | (gravity > MOST_GRAVITY) | is_wrong


def _gravity(turning: FloatArray, acc: FloatArray) -> FloatArray:
    """Squares (k, 24) of gravity, times g, in the fixed frame by rotations (k, m, 3, 3) of accelerations (k, m, 3), for
    each of the ways in which the accelerometer's axes may lie."""
    k, m = acc.shape[:2]
    means = turning.reshape(k, m, 9).transpose(0, 2, 1) @ acc / (m * STANDARD_GRAVITY_MS2)
    moved = means.reshape(k, 3, 9) @ _TURNS.T
    gravity: FloatArray = (moved * moved).sum(axis=1)
    return gravity


def _jumps(fixed: FloatArray, n_piece: int) -> tuple[BoolArray, BoolArray]:
    """In which windows gravity, as accelerations (k, 3, m) in the fixed frame have it, turns by more than the margins,
    and by more than JUMP_RAD; where either part has less than half of g there is none to go by."""
    before, after = _parts(fixed, n_piece)
    n_before = np.arange(2, 2 + before.shape[-1])
    n_after, least = n_before[::-1], (LEAST_GRAVITY * STANDARD_GRAVITY_MS2 * n_piece) ** 2
    has_gravity = (before * before).sum(axis=1) > least * n_before**2
    has_gravity &= (after * after).sum(axis=1) > least * n_after**2
    cosine = _cosine(before, after)
    is_jump = (has_gravity & (cosine < _least_cosine(n_before.size))).any(axis=1)
    is_long = np.minimum(n_before, n_after) >= JUMP_PIECES
    return is_jump, (has_gravity & is_long & (cosine < np.cos(JUMP_RAD))).any(axis=1)


def rotations(gyr_rads: FloatArray, *, rate_hz: float) -> FloatArray:
    """From the device's frame at each sample of windows (k, 3, m) to that at the first: rotation matrices (k, m, 3, 3).

    Each step turns by the mean of two neighbouring rates (Rodrigues); the products are made in blocks, side by side.
    """
    k, _, m = gyr_rads.shape
    n_blocks = -(-m // _BLOCK)
    steps = np.zeros((k, n_blocks * _BLOCK, 3, 3))
    steps[:, :, range(3), range(3)] = 1.0
    steps[:, 1:m] = _steps((gyr_rads[:, :, 1:] + gyr_rads[:, :, :-1]).transpose(0, 2, 1) / (2 * rate_hz))
    blocks = steps.reshape(k, n_blocks, _BLOCK, 3, 3)
    for j in range(1, _BLOCK):
        blocks[:, :, j] = blocks[:, :, j - 1] @ blocks[:, :, j]
    for b in range(1, n_blocks):
        blocks[:, b] = blocks[:, b - 1, -1:] @ blocks[:, b]
    return blocks.reshape(k, n_blocks * _BLOCK, 3, 3)[:, :m]


def _steps(angles: FloatArray) -> FloatArray:
    """Rotations (k, m, 3, 3) by the vectors (k, m, 3), rad."""
    size = np.sqrt((angles * angles).sum(axis=-1))[..., None, None]
    x, y, z = np.moveaxis(angles, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)
    outer = angles[..., :, None] * angles[..., None, :]
    turned: FloatArray = np.cos(size) * np.eye(3) + np.sinc(size / np.pi) * cross
    turned += 0.5 * np.sinc(size / (2 * np.pi)) ** 2 * outer
    return turned
