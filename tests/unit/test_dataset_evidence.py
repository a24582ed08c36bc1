"""Measurements on the raw files, past all loaders, that docs/datasets.md rests its treatment of stamps on."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]


def read(archive: zipfile.ZipFile, name: str, **options: object) -> Array:
    text = archive.read(name).decode("utf-8-sig")
    return np.loadtxt(io.StringIO(text.partition("@DATA")[2] or text), delimiter=",", **options)  # type: ignore[call-overload]


def weda_files(shared_data: Path, sensor: str) -> Iterator[tuple[str, Array]]:
    with zipfile.ZipFile(shared_data / "weda-fall.zip") as archive:
        for name in sorted(archive.namelist()):
            if "/50Hz/" in name and name.endswith(f"_{sensor}.csv"):
                yield name, read(archive, name, skiprows=1)


def change(values: Array) -> Array:
    return np.abs(np.diff(values, axis=0)).sum(axis=1)


def test_weda_stamps_are_of_arrival_because_values_change_alike_at_1_and_at_100_ms(shared_data: Path) -> None:
    """If stamps were of sampling, samples 2 ms apart would differ far less than samples 100 ms apart: they do not."""
    ratios = []
    for _, table in weda_files(shared_data, "accel"):
        step, changed = np.diff(table[:, 0]), change(table[:, 1:])
        within, across = (step >= 0) & (step < 0.02), step > 0.05
        ratios.append(changed[within].mean() / changed[across].mean())
    assert len(ratios) == 969
    assert 0.9 < np.median(ratios) < 1.1


@pytest.mark.parametrize(("sensor", "n_files"), [("accel", 24), ("gyro", 32)])
def test_weda_backward_jumps_are_swapped_groups_whose_stamps_are_right(
    shared_data: Path, sensor: str, n_files: int
) -> None:
    """At the seams the signal leaps in the order of the rows and runs on smoothly in the order of the stamps."""
    in_rows, in_stamps = [], []
    for _, table in weda_files(shared_data, sensor):
        order = np.argsort(table[:, 0], kind="stable")
        if (order == np.arange(len(order))).all():
            continue
        usual = max(change(table[:, 1:]).mean(), 0.05)
        row_seams = np.flatnonzero(np.diff(np.argsort(order)) != 1)
        stamp_seams = np.flatnonzero(np.diff(order) != 1)
        in_rows.append(change(table[:, 1:])[row_seams].mean() / usual)
        in_stamps.append(change(table[order, 1:])[stamp_seams].mean() / usual)
    assert len(in_rows) == n_files
    assert np.median(in_rows) > 2 * np.median(in_stamps)
    assert np.mean(np.array(in_stamps) <= np.array(in_rows)) > 0.9


def test_weda_sensors_share_one_clock(shared_data: Path) -> None:
    """Bursts of both sensors come in the same messages: their stamps agree to 10 ms in 98 % of the trials."""
    offsets = []
    both = zip(weda_files(shared_data, "accel"), weda_files(shared_data, "gyro"), strict=True)
    for (_, acc), (_, gyr) in both:
        starts = [np.sort(t)[1:][np.diff(np.sort(t)) > 0.04] for t in (acc[:, 0], gyr[:, 0])]
        nearest = np.abs(starts[1][None, :] - starts[0][:, None]).argmin(axis=1)
        offsets.append(np.median(starts[1][nearest] - starts[0]))
    assert np.mean(np.abs(offsets) < 0.01) > 0.97


def test_mobifall_gyroscope_settles_within_150_ms(shared_data: Path) -> None:
    """Peaks fall from over ten times the later level at 50 to 90 ms, where spikes are over, to that level at 150 ms."""
    early, settled = [], []
    with zipfile.ZipFile(shared_data / "mobifall.zip") as archive:
        for name in sorted(name for name in archive.namelist() if "_gyro_" in name)[::5]:
            table = read(archive, name)
            t_ms, peak = (table[:, 0] - table[0, 0]) / 1e6, np.abs(table[:, 1:]).max(axis=1)
            level = max(np.median(peak[(t_ms >= 200) & (t_ms < 500)]), 0.05)
            early.append(peak[(t_ms >= 50) & (t_ms < 90)].max() / level)
            settled.append(peak[(t_ms >= 150) & (t_ms < 200)].max() / level)
    assert np.median(early) > 10
    assert np.median(settled) < 1.5


def test_mobifall_stamps_are_of_sampling_and_many_files_start_slowly(shared_data: Path) -> None:
    """Values change more over longer steps; 495 accelerometer files start with up to eight samples 0.2 s apart."""
    short, long, n_slow_starts, latest = [], [], 0, 0.0
    with zipfile.ZipFile(shared_data / "mobifall.zip") as archive:
        for name in sorted(name for name in archive.namelist() if "_acc_" in name):
            table = read(archive, name)
            step, changed = np.diff(table[:, 0]) / 1e6, change(table[:, 1:])
            if any(f"{code}_acc" in name for code in ("JOG", "WAL", "STU", "STN")):
                short.append(changed[(step >= 9) & (step < 12)])
                long.append(changed[(step >= 18) & (step < 24)])
            n_slow_starts += step[0] > 150
            coarse = np.flatnonzero(step[:20] > 150)
            latest = max(latest, float((table[coarse[-1] + 1, 0] - table[0, 0]) / 1e9) if len(coarse) else 0.0)
    assert np.concatenate(long).mean() > 1.3 * np.concatenate(short).mean()
    assert n_slow_starts == 495
    assert latest == pytest.approx(1.81, abs=0.01)


@pytest.mark.parametrize("device", ["sp", "sw"])
def test_sp_sw_har_stamps_are_of_delivery(shared_data: Path, device: str) -> None:
    """Values change as much between samples that share a stamp as between samples 10 ms apart."""
    ratios = []
    with zipfile.ZipFile(shared_data / "sp-sw-har.zip") as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(f"_{device}.csv")):
            table = read(archive, name, skiprows=1, usecols=range(7))
            step, changed = np.diff(table[:, 6]), change(table[:, :3])
            if (step < 3).any():
                ratios.append(changed[step < 3].mean() / changed[(step >= 8) & (step <= 12)].mean())
    assert 0.8 < np.median(ratios) < 1.25
