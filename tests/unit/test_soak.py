"""What benchmarks/soak.py calls growth, and what it reads of /metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.soak import Sample, findings, lives, memory_line, metrics


def samples(
    rss_mb: np.ndarray,
    *,
    threads: list[int] | None = None,
    files: list[int] | None = None,
    queue: np.ndarray | None = None,
) -> list[Sample]:
    """One a second."""
    n = len(rss_mb)
    rest = {name: 0.0 for name in Sample._fields if name not in ("t_s", "rss_mb", "threads", "files", "queue")}
    waiting = np.zeros(n) if queue is None else queue
    rows = zip(rss_mb.tolist(), threads or [4] * n, files or [12] * n, waiting.tolist(), strict=True)
    return [Sample(t_s=float(k), rss_mb=m, threads=a, files=b, queue=q, **rest) for k, (m, a, b, q) in enumerate(rows)]


def queue_of(n: int, *peaks: tuple[int, int]) -> np.ndarray:
    """So many messages wait for three seconds, from that second on, else two."""
    queue = np.full(n, 2.0)
    for at, height in peaks:
        queue[at : at + 3] = height
    return queue


def test_line_through_memory_has_the_interval_of_least_squares() -> None:
    """Twelve hours that go up and down by 1 MB: slope -6 / 143 by hand, t of 10 degrees of freedom from a table."""
    k = np.arange(12)
    line = memory_line(3600.0 * k, 50.0 + (-1.0) ** k, np.zeros(12))
    slope, reach = -6 / 143, 2.228139 * math.sqrt((12 - 36 / 143) / 10 / 143)
    assert line.slope == pytest.approx(slope)
    assert (line.low, line.high) == (pytest.approx(slope - reach, rel=1e-5), pytest.approx(slope + reach, rel=1e-5))
    assert line.hours == 11
    assert line[5:] == (0.0, 0.0, 0.0)


def test_memory_that_goes_up_and_down_does_not_grow() -> None:
    """Noise, and a tooth that comes back."""
    rng = np.random.default_rng(0)
    k = np.arange(1200)
    line, wrong = findings(samples(90.0 + 0.3 * rng.normal(size=1200) + (k % 100) / 50), 0.1)
    assert wrong == []
    assert line.low < 0 < line.high


def test_leak_under_noise_is_found_once_it_is_large_enough() -> None:
    """6 MB an hour are 2 MB in 20 minutes: growth where 1 MB is allowed, none where 3 are."""
    rng = np.random.default_rng(0)
    rss_mb = 90.0 + 0.3 * rng.normal(size=1200) + 6.0 * np.arange(1200) / 3600
    _, wrong = findings(samples(rss_mb), 1.0)
    assert [text.partition(" by ")[0] for text in wrong] == ["memory grows"]
    assert findings(samples(rss_mb), 3.0)[1] == []


PEAKS = ((1400, 900), (2000, 1500), (2900, 1600))


def noisy(n: int) -> np.ndarray:
    return 100.0 + 0.1 * np.random.default_rng(0).normal(size=n)


def test_memory_that_queues_took_and_that_is_kept_is_no_leak() -> None:
    """10 kB a message, a step at each larger queue, flat between; time alone would explain it by growth."""
    queue = queue_of(3600, *PEAKS)
    rss_mb = noisy(3600) + 10 / 1024 * np.maximum.accumulate(queue)
    line, wrong = findings(samples(rss_mb, queue=queue), 1.0, 600.0)
    assert wrong == []
    assert line.low < 0 < line.high
    assert line.queued_low < 10.0 < line.queued_high
    assert line.queued_high - line.queued_low < 1.0
    assert [text.partition(" by ")[0] for text in findings(samples(rss_mb), 1.0, 600.0)[1]] == ["memory grows"]


def test_leak_beside_queues_is_found_and_each_is_told_by_itself() -> None:
    """6 MB an hour and 10 kB a message."""
    queue = queue_of(3600, *PEAKS)
    rss_mb = noisy(3600) + 6.0 * np.arange(3600) / 3600 + 10 / 1024 * np.maximum.accumulate(queue)
    line, wrong = findings(samples(rss_mb, queue=queue), 1.0, 600.0)
    assert [text.partition(" by ")[0] for text in wrong] == ["memory grows"]
    assert line.low < 6.0 < line.high
    assert line.queued_low < 10.0 < line.queued_high


def test_queue_of_the_warm_up_explains_nothing_later() -> None:
    """The largest one was before: what rises after it is growth."""
    queue = queue_of(3600, (100, 2000), *PEAKS)
    rss_mb = noisy(3600) + 6.0 * np.arange(3600) / 3600
    line, wrong = findings(samples(rss_mb, queue=queue), 1.0, 600.0)
    assert len(wrong) == 1
    assert line.queued_kb == 0.0


def test_threads_and_files_that_stay_are_found_and_passing_ones_are_not() -> None:
    """An answer of /metrics takes a thread and a socket for a while."""
    flat, passing, leaking = np.full(200, 90.0), [4] * 200, [4] * 100 + [5] * 100
    passing[190] = 9
    assert findings(samples(flat, threads=passing, files=passing), 1.0)[1] == []
    assert findings(samples(flat, threads=leaking, files=leaking), 1.0)[1] == [
        "threads become more: 4 in the first quarter, 5 in the last",
        "files become more: 4 in the first quarter, 5 in the last",
    ]


def test_metrics_are_read_by_name_and_label() -> None:
    """Comments and other programs' metrics are left out."""
    page = (
        "# TYPE stream_occ_messages_refused_total counter\n"
        'stream_occ_messages_refused_total{reason="nan"} 2.0\nprocess_open_fds 9.0\nstream_occ_ready 1.0\n'
    )
    assert metrics(page) == {'messages_refused_total{reason="nan"}': 2.0, "ready": 1.0}


def test_lives_end_as_they_begin() -> None:
    """A device that plays one again and again is turned at no seam: it would be named for axes that changed."""
    for life in lives(4, 3, duration_s=60.0, n_falls=1):
        before, after = life[-1].block.acc_ms2[-3:].mean(axis=0), life[0].block.acc_ms2[:3].mean(axis=0)
        cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert np.degrees(np.arccos(cosine)) < 5.0
