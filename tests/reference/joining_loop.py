"""Pairing of two streams, one sample after the other, with Python's own numbers."""

from fractions import Fraction


def at(stamps, values, t, gap_ns):
    """Value at t by linear interpolation between neighbours at most gap_ns apart, exactly; None where there is none."""
    for stamp, value in zip(stamps, values, strict=True):
        if stamp == t:
            return value
    before = [i for i, stamp in enumerate(stamps) if stamp < t]
    after = [i for i, stamp in enumerate(stamps) if stamp > t]
    if not before or not after:
        return None
    left, right = max(before, key=lambda i: stamps[i]), min(after, key=lambda i: stamps[i])
    width = stamps[right] - stamps[left]
    if width > gap_ns:
        return None
    share = Fraction(t - stamps[left], width)
    return [
        float(Fraction(a) + share * (Fraction(b) - Fraction(a)))
        for a, b in zip(values[left], values[right], strict=True)
    ]


def join_loop(acc_t, acc, gyr_t, gyr, gap_ns):
    """(t, acc, gyr) of every accelerometer sample that has a gyroscope value, in order."""
    rows = []
    for t, value in sorted(zip(acc_t, acc, strict=True), key=lambda row: row[0]):
        paired = at(gyr_t, gyr, t, gap_ns)
        if paired is not None:
            rows.append((t, value, paired))
    return rows
