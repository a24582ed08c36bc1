"""Recordings to trials: windows, truth of each window, peaks, what is too short."""

import numpy as np
import pytest

from stream_occ import features
from stream_occ.errors import ConfigError
from stream_occ.evaluation.extraction import FrontEnd, extract_trial, extract_trials, overlaps, peaks
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.windowing import cut_windows

FRONT_END = FrontEnd(window_s=2.0, hop_s=0.5)


def recording(seconds, *, is_fall=False, interval_s=None, peak_at_s=None, start_s=100.0, seed=0):
    """Noise around gravity at 50 Hz, with one large sample where asked for."""
    rng = np.random.default_rng(seed)
    t_s = start_s + np.arange(round(seconds * 50)) / 50
    acc = rng.normal([0.0, 0.0, 9.81], 0.5, (t_s.size, 3))
    if peak_at_s is not None:
        acc[round(peak_at_s * 50)] = [40.0, 0.0, 9.0]
    block = SampleBlock("d", (t_s * NS_PER_S).round().astype(np.int64), acc, rng.normal(size=(t_s.size, 3)))
    interval = None if interval_s is None else tuple(round((start_s + s) * NS_PER_S) for s in interval_s)
    return Recording("made-up", "p", "A", "1", is_fall, interval, "wrist", block)


def test_features_are_those_of_the_streams_own_windows():
    """A trial's items are the features of the windows that cut_windows makes with the feature set's filter.

    6.2 s before a gap, windows of 2 s every .5 s: nine, and one that ends with the last sample, at 6.18 s. Not so at
    the end of the recording, 3.2 s after the gap.
    """
    from scipy.signal import butter

    rec = recording(9.4)
    rec.block.t_ns[310:] += 60 * NS_PER_S
    trial = extract_trial(rec, FRONT_END)
    assert trial.is_item.tolist() == [True] * 9 + [False] + [True] * 3
    assert trial.shown.t_end_ns[9] == rec.block.t_ns[309]
    batch = cut_windows(rec.block, rate_hz=50.0, window_s=2.0, hop_s=0.5, sos=butter(1, 20.0, fs=50.0, output="sos"))
    np.testing.assert_allclose(trial.X[trial.is_item], features.load("khan31r").extract(batch), rtol=1e-9, atol=1e-12)
    assert trial.duration_s == pytest.approx(69.38)
    np.testing.assert_array_equal(trial.shown.t_end_ns[trial.is_item], batch.t_start_ns + round(1.98 * NS_PER_S))
    assert (trial.activity, trial.placement) == ("A", "wrist")


def test_recording_shorter_than_a_window_is_unscored():
    """1.5 s give no window of 2 s, and none is invented."""
    trial = extract_trial(recording(1.5, is_fall=True), FRONT_END)
    assert len(trial) == 0
    assert trial.X.shape == (0, 31)
    assert trial.peak_acc_ms2.size == trial.overlaps_fall.size == trial.shown.t_end_ns.size == 0


def test_recording_shorter_than_a_window_is_scored_by_what_there_is():
    """3.2 s of fall31's windows of 5 s: one window of them, an item, not on the hop; 2.9 s: none."""
    short = recording(3.2, is_fall=True, peak_at_s=1.0)
    trial = extract_trial(short, FrontEnd("fall31", 50.0, 5.0, 0.5))
    assert (trial.is_item.tolist(), trial.is_on_hop.tolist()) == ([True], [False])
    assert trial.shown.t_end_ns.tolist() == [int(short.block.t_ns[-1])]
    assert trial.peak_acc_ms2.tolist() == [pytest.approx(41.0)]  # (40, 0, 9)
    assert trial.overlaps_fall.tolist() == [True]
    assert len(extract_trial(recording(2.9), FrontEnd("fall31", 50.0, 5.0, 0.5))) == 0


def test_short_piece_beside_a_whole_window_is_no_item():
    """3.2 s, a gap and 5.2 s: the piece before the gap is looked at by the pipeline alone."""
    rec = recording(8.4)
    rec.block.t_ns[160:] += 60 * NS_PER_S
    trial = extract_trial(rec, FrontEnd("fall31", 50.0, 5.0, 0.5))
    assert trial.is_item.tolist() == trial.is_on_hop.tolist() == [False, True]


def test_windows_that_overlap_the_annotated_fall_are_falls():
    """Fall from 4.0 to 4.5 s: windows of 2 s starting 2.5 to 4.5 s overlap it; that ending at 3.98 s does not."""
    trial = extract_trial(recording(8.0, is_fall=True, interval_s=(4.0, 4.5)), FRONT_END)
    start_s = (trial.shown.t_end_ns / NS_PER_S - 1.98 - 100.0).round(2)
    assert start_s[trial.overlaps_fall].tolist() == [2.5, 3.0, 3.5, 4.0, 4.5]
    assert trial.fall_ns == (104 * NS_PER_S, 104_500_000_000)


def test_without_annotation_every_window_of_a_fall_recording_is_a_fall():
    """And the instant of the largest |a| stands for the fall's start and end."""
    trial = extract_trial(recording(6.0, is_fall=True, peak_at_s=3.0), FRONT_END)
    assert trial.overlaps_fall.all()
    assert trial.fall_ns == (103 * NS_PER_S, 103 * NS_PER_S)


def test_normal_recording_has_no_fall():
    """No window is a fall and there is no instant of one."""
    trial = extract_trial(recording(6.0, peak_at_s=3.0), FRONT_END)
    assert not trial.overlaps_fall.any()
    assert trial.fall_ns is None


def test_peak_is_that_of_the_recorded_samples_in_the_window():
    """The 41 m/s2 sample at 3.0 s is seen unfiltered by the windows that hold it, and by no other."""
    trial = extract_trial(recording(6.0, peak_at_s=3.0), FRONT_END)
    holds = (trial.shown.t_end_ns >= 103 * NS_PER_S) & (trial.shown.t_end_ns - round(1.98 * NS_PER_S) <= 103 * NS_PER_S)
    np.testing.assert_allclose(trial.peak_acc_ms2[holds], 41.0)
    assert (trial.peak_acc_ms2[~holds] < 20).all()


def test_peaks_do_not_depend_on_the_order_of_samples():
    """Samples that came out of order are looked up by their stamps; an empty stretch has peak 0."""
    t = np.array([3, 1, 2, 9])
    acc = np.array([[3.0, 0, 4.0], [1.0, 0, 0], [2.0, 0, 0], [9.0, 0, 0]])
    found = peaks(t, acc, np.array([1, 2, 4]), np.array([2, 3, 8]))
    np.testing.assert_array_equal(found, [2.0, 5.0, 0.0])


def test_a_window_that_only_touches_the_fall_overlaps_it():
    """Ends are included on both sides."""
    rec = recording(6.0, is_fall=True, interval_s=(1.0, 2.0))
    start = np.array([98, 99, 102, 103]) * NS_PER_S
    end = start + np.array([2, 2, 2, 2]) * NS_PER_S
    np.testing.assert_array_equal(overlaps(rec, start, end), [False, True, True, False])


def test_two_processes_give_the_trials_of_one_in_the_same_order():
    """Bit for bit."""
    recordings = [recording(4.0, seed=i, is_fall=i == 1) for i in range(4)]
    one, two = (extract_trials(iter(recordings), FRONT_END, n_jobs=n) for n in (1, 2))
    assert len(one) == 4
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        assert (a.name, a.is_fall) == (b.name, b.is_fall)


def test_rate_too_low_for_the_feature_set_is_one_line():
    """khan31r has a 20 Hz low-pass and needs more than 40 Hz."""
    with pytest.raises(ConfigError, match=r"^rate_hz: must be above 40"):
        extract_trial(recording(6.0), FrontEnd(rate_hz=25.0))
