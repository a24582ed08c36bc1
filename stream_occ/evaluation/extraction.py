"""Recordings to trials: windows cut by the stream's own machinery, features, and what the truth says of each window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stream_occ import features
from stream_occ.errors import DataError
from stream_occ.evaluation.protocol import Trial
from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray, Recording
from stream_occ.training.data import ProgressReport
from stream_occ.watching import shown
from stream_occ.windowing import WindowBatch, WindowShape, iter_windows


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """How a stream becomes feature vectors; methods that share one share the features of a run."""

    feature_set: str = "khan31r"
    rate_hz: float = 50.0
    window_s: float = 5.0
    hop_s: float = 0.5

    @property
    def shape(self) -> WindowShape:
        """Length and hop of windows in samples."""
        chosen = features.load(self.feature_set)
        lowest_hz = features.slowest_stream_hz(self.rate_hz, chosen)
        times = {"rate_hz": self.rate_hz, "window_s": self.window_s, "hop_s": self.hop_s}
        return WindowShape.of(**times, min_stream_hz=lowest_hz, min_window_s=chosen.min_window_s)

    def cut(self, recording: Recording) -> list[WindowBatch]:
        """All windows that the service looks at; ConfigError for a rate at which the feature set is not defined."""
        sos = features.design_lowpass(features.load(self.feature_set), self.rate_hz)
        return [batch for batch in iter_windows(recording.block, self.shape, sos=sos, closing=True) if len(batch)]


def extract_trial(recording: Recording, front_end: FrontEnd) -> Trial:
    """What evaluation keeps of a recording.

    Windows of non-finite features are left out, as the pipeline does, and all of a stream that is too slow throughout.
    """
    batches = front_end.cut(recording)
    chosen = features.load(front_end.feature_set)
    is_slow = len(batches) > 0 and all(batch.slow.all() for batch in batches)
    X = np.full((sum(map(len, batches)), len(chosen.NAMES)), np.nan)
    if len(X) and not is_slow:
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.concatenate([chosen.extract(batch) for batch in batches])
    kept = np.isfinite(X).all(axis=1)
    none = np.empty(0, dtype=np.int64)
    t_start_ns = np.concatenate([none, *(batch.t_start_ns for batch in batches)])[kept]
    t_end_ns = np.concatenate([none, *(batch.t_end_ns for batch in batches)])[kept]
    block = recording.block
    span_ns = int(block.t_ns.max() - block.t_ns.min()) if len(block) else 0
    return Trial(
        name=recording.name,
        subject=recording.subject,
        is_fall=recording.is_fall,
        duration_s=span_ns / NS_PER_S,
        fall_ns=fall_instants(recording),
        X=X[kept],
        peak_acc_ms2=peaks(block.t_ns, block.acc_ms2, t_start_ns, t_end_ns),
        overlaps_fall=overlaps(recording, t_start_ns, t_end_ns),
        shown=shown(batches, front_end.shape).take(kept),
        is_slow=is_slow,
        activity=recording.activity,
        placement=recording.placement,
    )


def overlaps(recording: Recording, t_start_ns: IntArray, t_end_ns: IntArray) -> BoolArray:
    """Which windows overlap the annotated fall; without an annotation every window of a fall recording."""
    if not recording.is_fall or recording.fall_interval_ns is None:
        return np.full(t_start_ns.shape, recording.is_fall)
    start_ns, end_ns = recording.fall_interval_ns
    return (t_start_ns <= end_ns) & (t_end_ns >= start_ns)


def fall_instants(recording: Recording) -> tuple[int, int] | None:
    """(start, end) of a fall as far as known: annotated, else twice the instant of the largest |a|; None if no fall."""
    if not recording.is_fall:
        return None
    if recording.fall_interval_ns is not None:
        return recording.fall_interval_ns
    if not len(recording.block):
        return None
    impact = int(recording.block.t_ns[np.argmax(_magnitude(recording.block.acc_ms2))])
    return impact, impact


def peaks(t_ns: IntArray, acc_ms2: FloatArray, t_start_ns: IntArray, t_end_ns: IntArray) -> FloatArray:
    """Largest |a| (m/s2) of the recorded, unfiltered samples from t_start_ns to t_end_ns; 0 where there is none."""
    order = np.argsort(t_ns, kind="stable")
    magnitude, t_sorted = _magnitude(acc_ms2)[order], t_ns[order]
    first = np.searchsorted(t_sorted, t_start_ns, "left")
    last = np.searchsorted(t_sorted, t_end_ns, "right")
    return np.array([magnitude[i:j].max(initial=0.0) for i, j in zip(first, last, strict=True)])


def extract_trials(
    recordings: Iterable[Recording],
    front_end: FrontEnd,
    *,
    n_jobs: int = 1,
    n_expected: int = 0,
    progress: ProgressReport = lambda stage, done, total: None,
) -> list[Trial]:
    """Trials of all recordings, in their order; only a few recordings are in memory at a time.

    Features are computed once a run, whatever the number of methods. Raises DataError where most of the recordings are
    too slow for the feature set.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    parallel = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch=2 * effective_n_jobs(n_jobs))
    trials: list[Trial] = []
    for trial in parallel(delayed(extract_trial)(recording, front_end) for recording in recordings):
        trials.append(trial)
        progress("Extracting features", len(trials), n_expected)
    slow = [trial.name for trial in trials if trial.is_slow]
    if len(slow) > len(trials) / 2:
        lowest = features.slowest_stream_hz(front_end.rate_hz, features.load(front_end.feature_set))
        raise DataError(
            "recordings",
            f"be sampled at {lowest:g} Hz or faster for {front_end.feature_set}",
            f"{len(slow)} of {len(trials)} slower, {slow[0]} first",
            "Take another --variant, or a --model-config for slow streams "
            "(feature_set: khan31r-nofilter, rate_hz: 20, detector: {name: working})",
        )
    return trials


def _magnitude(acc_ms2: FloatArray) -> FloatArray:
    magnitude: FloatArray = np.sqrt((acc_ms2**2).sum(axis=1))
    return magnitude
