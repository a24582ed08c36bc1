"""Compiled reading of the numbers of a JSON message: from its bytes straight into arrays, with the bits of `float`.

`codecs/_quick_json.py` calls `lift`. A number of up to 18 digits is an integer over a power of ten, each the sum of two
floats; what their quotient leaves over is known to 2^-98 of it, and where that might decide the rounding, none is made.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from stream_occ.engines._vectors import array, compiled

SPACE, BLANK = 0x20, (0x20, 0x09, 0x0A, 0x0D)
QUOTE, BACKSLASH, COLON, COMMA, MINUS, PLUS, POINT, ZERO, NINE, BIG_E, SMALL_E = b'"\\:,-+.09Ee'
OPEN, CLOSE, OPEN_OBJECT, CLOSE_OBJECT = b"[]{}"
A, C, G, Y, R, T, UNDERLINE, N, U, M, S, E, Q = b"acgyrt_numseq"
ACC, GYR, SEQ, T_NS, T0_NS = 0, 1, 2, 3, 7  # numbers of keys: T_NS + 1 is t_us, then t_ms, t_s; T0_NS + 1 is t0_us
NOT_QUICK = (-1, 0, 0, 0, 0, 0.0, 0.0)
MAX_DIGITS = 18  # below 2^63
LATEST = (2**62 - 1) // 10  # no stamp from here on has a further digit
EXACT, EXACT_POWER = 2**53, 22  # integers and powers of ten up to these are floats
MAX_POWER = 45
POWER = np.array([float(10**k) for k in range(MAX_POWER + 1)])
POWER_REST = np.array([float(10**k - int(float(10**k))) for k in range(MAX_POWER + 1)])  # for which a float has no room
SPLIT = 2.0**27 + 1.0
DOUBT = 2.0**-98  # of a quotient made of two floats, relative: four times what can come up


@njit(error_model="numpy")
def _quotient(digits, power):
    """digits / 10^power rounded to nearest, and whether that is certain: a quotient of floats and what it left over."""
    whole, divisor = np.float64(digits), POWER[power]
    first = whole / divisor
    product = first * divisor
    a = SPLIT * first
    a -= a - first
    b = SPLIT * divisor
    b -= b - divisor
    a_low, b_low = first - a, divisor - b
    lost = ((a * b - product) + a * b_low + a_low * b) + a_low * b_low  # first * divisor - product, exactly
    left = ((whole - product) - lost) + np.float64(digits - np.int64(whole)) - first * POWER_REST[power]
    second = left / divisor
    value = first + second
    below = (first - value) + second
    doubt = value * DOUBT
    return value, value + (below + (doubt if below >= 0.0 else -doubt)) == value


@njit(error_model="numpy")
def _is_long(text, at, behind):
    """True where the digits of a number, zeros before the first other one left out, do not fit into digits."""
    while at < behind and (text[at] == ZERO or text[at] == POINT):
        at += 1
    n = 0
    for j in range(at, behind):
        n += text[j] != POINT
    return n > MAX_DIGITS


@njit(error_model="numpy")
def _exponent(text, at):
    """The exponent at `at`, behind its e, and the first byte behind it; -1 where there is none below 1000."""
    is_down = text[at] == MINUS
    if is_down or text[at] == PLUS:
        at += 1
    start, exponent = at, 0
    while ZERO <= text[at] <= NINE and at < start + 4:
        exponent = exponent * 10 + (np.int64(text[at]) - ZERO)
        at += 1
    return (-exponent if is_down else exponent), (at if start < at < start + 4 else -1)


@njit(error_model="numpy")
def _rows(text, at, out):
    """Fills out with the [[x, y, z], ...] or [x, y, z] at `at`: the first byte behind (-1: no such), rows, largest |x|.

    One loop in one function: a call for each number takes longer than to read it.
    """
    n, largest, is_batch = 0, 0.0, False
    while True:
        if is_batch or n == 0:
            at += 1
            while text[at] <= SPACE and text[at] in BLANK:
                at += 1
        if n == 0 and text[at] == OPEN:
            is_batch = True
        if is_batch:
            if text[at] != OPEN or n >= len(out):
                return -1, n, largest
            at += 1
        for axis in range(3):
            while text[at] <= SPACE and text[at] in BLANK:
                at += 1
            is_negative = np.int64(text[at] == MINUS)
            start = at = at + is_negative
            digits, power, is_integer, is_sure = np.int64(0), 0, True, True
            digit = np.int64(text[at]) - ZERO
            while 0 <= digit <= 9:
                digits = digits * 10 + digit
                at += 1
                digit = np.int64(text[at]) - ZERO
            if at == start or (at - start > 1 and text[start] == ZERO):
                return -1, n, largest
            if text[at] == POINT:
                point, is_integer = at, False
                at += 1
                digit = np.int64(text[at]) - ZERO
                while 0 <= digit <= 9:
                    digits = digits * 10 + digit
                    at += 1
                    digit = np.int64(text[at]) - ZERO
                power = at - point - 1
                if power == 0:
                    return -1, n, largest
            if at - start > MAX_DIGITS and _is_long(text, start, at):
                return -1, n, largest
            if text[at] == SMALL_E or text[at] == BIG_E:
                exponent, at = _exponent(text, at + 1)
                if at < 0:
                    return -1, n, largest
                power -= exponent
                is_integer = False
            value = np.float64(digits)
            if digits == 0:
                is_negative *= not is_integer  # -0 is 0, -0.0 is not
            elif 0 <= power <= EXACT_POWER and digits <= EXACT:
                value /= POWER[power]
            elif 0 <= power <= MAX_POWER:
                value, is_sure = _quotient(digits, power)
            else:
                value *= POWER[min(abs(power), EXACT_POWER)]
                is_sure = -EXACT_POWER <= power < 0 and digits <= EXACT
            if not is_sure:
                return -1, n, largest
            largest = max(largest, value)
            out[n, axis] = -value if is_negative else value
            while text[at] <= SPACE and text[at] in BLANK:
                at += 1
            if text[at] != (CLOSE if axis == 2 else COMMA):
                return -1, n, largest
            at += 1
        n += 1
        if not is_batch:
            return at, n, largest
        while text[at] <= SPACE and text[at] in BLANK:
            at += 1
        if text[at] == CLOSE:
            return at + 1, n, largest
        if text[at] != COMMA:
            return -1, n, largest


@njit(error_model="numpy")
def _integers(text, at, out):
    """Fills out with the [i, ...] or i at `at`, 0 to 2^62: the first byte behind (-1: no such), how many, largest."""
    n, largest, is_batch = 0, np.int64(0), text[at] == OPEN
    while True:
        if is_batch:
            at += 1
            while text[at] <= SPACE and text[at] in BLANK:
                at += 1
        start, value = at, np.int64(0)
        while ZERO <= text[at] <= NINE and value <= LATEST:
            value = value * 10 + (np.int64(text[at]) - ZERO)
            at += 1
        if at == start or (at - start > 1 and text[start] == ZERO) or n >= len(out):
            return -1, n, largest
        out[n] = value
        n += 1
        largest = max(largest, value)
        while text[at] <= SPACE and text[at] in BLANK:
            at += 1
        if not is_batch:
            return at, n, largest
        if text[at] == CLOSE:
            return at + 1, n, largest
        if text[at] != COMMA:
            return -1, n, largest


@njit(error_model="numpy")
def _unit(text, at, behind):
    """0 to 3 where ns, us, ms or s lies there; -1 for anything else."""
    if behind - at == 1:
        return 3 if text[at] == S else -1
    if behind - at != 2 or text[at + 1] != S:
        return -1
    unit = text[at]
    return 0 if unit == N else 1 if unit == U else 2 if unit == M else -1


@njit(error_model="numpy")
def _key(text, at, behind):
    """The number of a key whose value is taken out; -1 for any other."""
    n = behind - at
    if n < 3 or n > 5:
        return -1
    x, y, z = text[at], text[at + 1], text[at + 2]
    if n == 3:
        if x == A and y == C and z == C:
            return ACC
        if x == G and y == Y and z == R:
            return GYR
        if x == S and y == E and z == Q:
            return SEQ
    if x != T or (y != UNDERLINE and (y != ZERO or z != UNDERLINE)):
        return -1
    unit = _unit(text, at + (2 if y == UNDERLINE else 3), behind)
    return -1 if unit < 0 else unit + (T_NS if y == UNDERLINE else T0_NS)


@njit(error_model="numpy")
def _ahead(text, at):
    while text[at] <= SPACE and text[at] in BLANK:
        at += 1
    return at


@compiled(
    array(types.uint8, 1, readonly=False),
    array(types.float64, 3, readonly=False),
    array(types.int64, 1, readonly=False),
)
def lift(text, rows, stamps):
    """Makes 0 of an object's samples, stamps and seq, in its text; rows (acc, gyr) and stamps take them.

    text: a message and a 0 behind it, which ends every loop. Returns bytes that are left (-1 where anything is out of
    the ordinary: an escape, a number that is not sure to the bit, a key twice, arrays of different lengths), number of
    samples, key of the stamps (t_ns, t_us, t_ms, t_s, then t0_*), seq or -1, latest stamp, largest |acc| and |gyr|.
    """
    acc, gyr = rows[0], rows[1]
    n, at, size, depth, key = len(text) - 1, 0, 0, 0, -1
    n_acc, n_gyr, n_stamps, stamp_key, seq, latest = 0, 0, 0, -1, np.int64(-1), np.int64(0)
    largest_acc, largest_gyr, n_batches = 0.0, 0.0, 0
    one = np.empty(1, np.int64)
    while at < n:
        byte = text[at]
        if key >= 0 and (byte == OPEN or (ZERO <= byte <= NINE)):
            n_batches += byte == OPEN and (key >= T_NS or text[_ahead(text, at + 1)] == OPEN)
            if key == ACC and n_acc == 0:
                at, n_acc, largest_acc = _rows(text, at, acc) if byte == OPEN else (-1, 0, 0.0)
            elif key == GYR and n_gyr == 0:
                at, n_gyr, largest_gyr = _rows(text, at, gyr) if byte == OPEN else (-1, 0, 0.0)
            elif key == SEQ and seq < 0:
                at, _, seq = _integers(text, at, one) if byte != OPEN else (-1, 0, np.int64(0))
            elif key >= T_NS and n_stamps == 0:
                at, n_stamps, latest = _integers(text, at, stamps) if byte != OPEN or key < T0_NS else (-1, 0, latest)
                stamp_key = key
            else:
                return NOT_QUICK
            if at < 0:
                return NOT_QUICK
            at = _ahead(text, at)
            if text[at] != COMMA and text[at] != CLOSE_OBJECT:
                return NOT_QUICK
            text[size] = ZERO  # what is left is never ahead of what is read
            size += 1
            key = -1
            continue
        start, at = at, at + 1
        if byte == QUOTE:
            while at < n and text[at] != QUOTE:
                if text[at] == BACKSLASH:
                    return NOT_QUICK
                at += 1
            if at == n:
                return NOT_QUICK
            at += 1
            key = _key(text, start + 1, at - 1) if depth == 1 else -1
        elif byte != COLON and byte not in BLANK:
            depth += (byte in (OPEN_OBJECT, OPEN)) - (byte in (CLOSE_OBJECT, CLOSE))
            key = -1
        for j in range(start, at):
            text[size] = text[j]
            size += 1
    is_regular = stamp_key >= T0_NS
    is_single = n_batches == 0
    if n_acc == 0 or n_acc != n_gyr or n_stamps == 0 or n_batches != (0 if is_single else 2 if is_regular else 3):
        return NOT_QUICK
    if (not is_regular and n_stamps != n_acc) or (is_regular and is_single):
        return NOT_QUICK
    return size, n_acc, stamp_key - T_NS, seq, latest, largest_acc, largest_gyr
