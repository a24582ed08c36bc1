"""The 31 features of khan31r written as plain loops over one window: slow, no numpy reduction, no FFT.

Written from the table of definitions, not from the package. Sums are exact (`math.fsum`); the spectrum is the defining
sum X_k = sum_i x_i exp(-2 pi j i k / m).
"""

import math

import numpy as np


def features_of_window(signals, rate_hz):
    """31 floats of one window: rows acc x, y, z, gyr x, y, z."""
    ax, ay, az, wx, wy, wz = ([float(v) for v in row] for row in signals)
    m = len(ax)
    a = [math.sqrt(ax[i] * ax[i] + ay[i] * ay[i] + az[i] * az[i]) for i in range(m)]
    w = [math.sqrt(wx[i] * wx[i] + wy[i] * wy[i] + wz[i] * wz[i]) for i in range(m)]
    values = [mean(x) for x in (ax, ay, az, a, wx, wy, wz, w)]
    for statistic in (max, min, std, iqr):
        values += [statistic(a), statistic(w)]
    values += [sma(ax, ay, az), sma(wx, wy, wz)]
    values += [entropy(a), entropy(w), energy(a), energy(w)]
    for x, y in ((ax, ay), (ax, az), (ay, az), (wx, wy), (wx, wz), (wy, wz)):
        values.append(pearson(x, y))
    for x in (a, w):
        values.append(rate_hz / (m - 1) * math.fsum(abs(x[i + 1] - x[i]) for i in range(m - 1)))
    values.append(pearson(a, w))
    return values


def features_loop(signals, rate_hz):
    """(n, 31) of windows (n, 6, m), one after the other."""
    return np.array([features_of_window(window, rate_hz) for window in signals])


def is_constant(x):
    return max(x) - min(x) <= 1e-9 * max(abs(v) for v in x)


def mean(x):
    return math.fsum(x) / len(x)


def std(x):
    centre = mean(x)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in x) / len(x))


def quantile(x, share):
    ordered = sorted(x)
    place = share * (len(x) - 1)
    below = math.floor(place)
    above = min(below + 1, len(x) - 1)
    return ordered[below] * (1 - (place - below)) + ordered[above] * (place - below)


def iqr(x):
    return quantile(x, 0.75) - quantile(x, 0.25)


def sma(x, y, z):
    return math.fsum(abs(v) for axis in (x, y, z) for v in axis) / len(x)


def power(x):
    """|X_k|^2 for k = 1 .. m // 2 of x without its mean."""
    centre, m = mean(x), len(x)
    bins = []
    for k in range(1, m // 2 + 1):
        # i * k is reduced modulo m in integers, so that the angle is exact to rounding.
        angles = [2 * math.pi * (i * k % m) / m for i in range(m)]
        real = math.fsum((x[i] - centre) * math.cos(angles[i]) for i in range(m))
        imag = math.fsum((x[i] - centre) * math.sin(angles[i]) for i in range(m))
        bins.append(real * real + imag * imag)
    return bins


def entropy(x):
    if is_constant(x):
        return 0.0
    bins = power(x)
    total = math.fsum(bins)
    shares = [p / total for p in bins if p > 0]
    return -math.fsum(p * math.log(p) for p in shares) / math.log(len(x) // 2)


def energy(x):
    if is_constant(x):
        return 0.0
    m = len(x)
    bins = power(x)
    weights = [1 if 2 * (k + 1) == m else 2 for k in range(len(bins))]
    return math.fsum(weight * p for weight, p in zip(weights, bins, strict=True)) / m**2


def pearson(x, y):
    if is_constant(x) or is_constant(y):
        return 0.0
    mean_x, mean_y = mean(x), mean(y)
    top = math.fsum((u - mean_x) * (v - mean_y) for u, v in zip(x, y, strict=True))
    bottom = math.sqrt(math.fsum((u - mean_x) ** 2 for u in x) * math.fsum((v - mean_y) ** 2 for v in y))
    return min(1.0, max(-1.0, top / bottom))
