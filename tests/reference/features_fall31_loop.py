"""The 31 features of fall31 written as plain loops over one window: slow, no numpy reduction, no FFT."""

import math

import numpy as np

BANDS_HZ = ((0.3, 1.5), (1.5, 3.5), (3.5, 6.0), (6.0, 10.0))


def mean_of(x):
    return math.fsum(x) / len(x)


def std_of(x):
    middle = mean_of(x)
    return math.sqrt(mean_of([(value - middle) ** 2 for value in x]))


def median_of(x):
    ordered = sorted(x)
    half = len(x) // 2
    return ordered[half] if len(x) % 2 else (ordered[half - 1] + ordered[half]) / 2


def length_of(vector):
    return math.sqrt(math.fsum(value**2 for value in vector))


def mean_vector(vectors):
    return [mean_of([vector[axis] for vector in vectors]) for axis in range(3)]


def angle_of(one, other):
    sizes = length_of(one), length_of(other)
    if min(sizes) < 1e-6:
        return 0.0
    cosine = math.fsum(p * q for p, q in zip(one, other, strict=True)) / sizes[0] / sizes[1]
    return math.acos(max(-1.0, min(1.0, cosine)))


def moving(x, width):
    return [x[i : i + width] for i in range(len(x) - width + 1)]


def autocorrelation_peak(a, rate_hz):
    middle = mean_of(a)
    centred = [value - middle for value in a]
    whole = math.fsum(value**2 for value in centred)
    last = min(round(2 * rate_hz), len(a) - 1)
    peaks = [
        math.fsum(centred[i] * centred[i + lag] for i in range(len(a) - lag))
        for lag in range(min(round(0.3 * rate_hz), last), last + 1)
    ]
    return max(peaks) / whole


def spectrum(a, rate_hz):
    """Log mean squares of the four bands and the evenness over all of them, by the definition of the transform."""
    m, middle = len(a), mean_of(a)
    tapered = [(a[i] - middle) * (0.5 - 0.5 * math.cos(2 * math.pi * i / m)) for i in range(m)]
    bands, shares = [0.0] * 4, []
    for k in range(m // 2 + 1):
        hertz = k * rate_hz / m
        band = [number for number, (low, high) in enumerate(BANDS_HZ) if low <= hertz < high]
        if band:
            real = math.fsum(tapered[i] * math.cos(2 * math.pi * k * i / m) for i in range(m))
            imaginary = math.fsum(tapered[i] * math.sin(2 * math.pi * k * i / m) for i in range(m))
            power = 2 * (real**2 + imaginary**2) / (0.375 * m**2)
            bands[band[0]] += power
            shares.append(power)
    total = math.fsum(shares)
    entropy = -math.fsum(p / total * math.log(p / total) for p in shares if p > 0) / math.log(len(shares))
    return [*(math.log(power + 4e-4) for power in bands), entropy]


def features_loop(signals, rate_hz):
    """Features (31,) of signals (6, m), in the set's order."""
    acc = [[float(signals[axis][i]) for axis in range(3)] for i in range(len(signals[0]))]
    gyr = [[float(signals[axis][i]) for axis in range(3, 6)] for i in range(len(signals[0]))]
    a, w = [length_of(v) for v in acc], [length_of(v) for v in gyr]
    m, q, second = len(a), len(a) // 4, round(rate_hz)
    median, mean, centre = median_of(a), mean_of(a), mean_vector(acc)
    mad = median_of([abs(value - median) for value in a])
    dynamic = max(length_of([v[axis] - centre[axis] for axis in range(3)]) for v in acc)
    scale = max(std_of(a), 0.05)
    kurtosis = mean_of([((value - mean) / scale) ** 4 for value in a])
    swing = max(max(part) - min(part) for part in moving(a, min(second, m)))
    brief = [mean_of(part) for part in moving(a, round(0.2 * rate_hz))]
    step = max(1, round(0.04 * rate_hz))
    jerk = [
        length_of([acc[i + step][axis] - acc[i][axis] for axis in range(3)]) * rate_hz / step for i in range(m - step)
    ]
    path, paths = 0.0, []
    for value in a:
        path += (value - mean) / rate_hz
        paths.append(path)
    means = [mean_vector(part) for part in moving(acc, min(second, m // 3))]
    lag = min(2 * second, len(means) - 1)
    return np.array(
        [
            math.log(max(a) + 0.1),
            math.log(dynamic + 0.1),
            math.log((max(a) - median) / (mad + 0.1) + 0.1),
            math.log(kurtosis + 1),
            math.log(swing + 0.1),
            min(a),
            min(brief),
            math.log(max(brief) + 0.1),
            math.log(max(jerk) + 1),
            math.log(mean_of(jerk) + 1),
            math.log(std_of(jerk) + 1),
            math.log(std_of(a) + 0.05),
            math.log(mad + 0.05),
            math.log(std_of(a[:q]) + 0.05),
            math.log(std_of(a[-q:]) + 0.05),
            math.log(max(w) + 0.05),
            math.log(mean_of(w) + 0.02),
            math.log(std_of(w) + 0.02),
            math.log(mean_of(w[:q]) + 0.02),
            math.log(mean_of(w[-q:]) + 0.02),
            math.log(max(mean_of(part) for part in moving(w, min(second, m))) + 0.02),
            angle_of(mean_vector(acc[:q]), mean_vector(acc[-q:])),
            max(angle_of(means[i], means[i + lag]) for i in range(len(means) - lag)),
            min(paths),
            max(paths) - min(paths),
            *spectrum(a, rate_hz),
            autocorrelation_peak(a, rate_hz),
        ]
    )
