"""Slow twin of the resampler: one sample at a time, plain Python and numpy, written from the rules and not the code."""

import numpy as np


def resample_loop(t_ns, values, *, rate_hz, gap_s, reorder_s, reset_after=25, remembered=1024):
    """Segments [(anchor_ns, grid values (n, 6))] and counters of a whole stream of samples."""
    gap_ns, reorder_ns = round(gap_s * 1e9), round(reorder_s * 1e9)
    counters = {"late": 0, "duplicate": 0, "clock_reset": 0, "gap": 0}
    newest, run, waiting, seen = None, [], [], []
    epochs = [[]]
    for t, v in zip([int(t) for t in t_ns], values, strict=True):
        is_late = newest is not None and t <= newest - reorder_ns
        sample = (t, *(float(x) for x in v))
        if is_late and (t == newest or sample in seen[-remembered:]):
            counters["duplicate"] += 1
            continue
        seen.append(sample)
        if is_late and len(run) + 1 < reset_after:
            run.append((t, v))
            continue
        taken = [(t, v)]
        if is_late:  # one too many: another clock, which began where these began to rise
            while run and run[-1][0] < taken[0][0]:
                taken.insert(0, run.pop())
            epochs[-1].extend(sorted(waiting, key=lambda s: s[0]))
            epochs.append([])
            waiting, newest = [], None
            counters["clock_reset"] += 1
        counters["late"] += len(run)
        run = []
        for t, v in taken:
            newest = t if newest is None else max(newest, t)
            if any(t == other for other, _ in waiting):
                counters["duplicate"] += 1
            else:
                waiting.append((t, v))
            ready = sorted((s for s in waiting if s[0] <= newest - reorder_ns), key=lambda s: s[0])
            waiting = [s for s in waiting if s[0] > newest - reorder_ns]
            epochs[-1].extend(ready)
    segments = []
    for epoch in epochs:
        current = []
        for sample in epoch:
            if current and sample[0] - current[-1][0] > gap_ns:
                counters["gap"] += 1
                segments.append(current)
                current = []
            current.append(sample)
        if current:
            segments.append(current)
    return [(segment[0][0], _grid_loop(segment, rate_hz)) for segment in segments], counters


def _grid_loop(segment, rate_hz):
    anchor, last = segment[0][0], segment[-1][0]
    rows, k, left = [], 0, 0
    while True:
        t = anchor + int(np.rint(k * (1e9 / rate_hz)))
        if t > last:
            return np.array(rows)
        while left + 1 < len(segment) and segment[left + 1][0] <= t:
            left += 1
        t0, v0 = segment[left]
        if t == t0:
            rows.append(v0 + (v0 - v0) * 0.0)
        else:
            t1, v1 = segment[left + 1]
            rows.append(v0 + (v1 - v0) * ((t - t0) / (t1 - t0)))
        k += 1
