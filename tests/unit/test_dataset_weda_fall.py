"""WEDA-FALL: bursts, swapped groups and two true rates under one name come out as one faithful clock."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.errors import DataError
from stream_occ.samples import Recording

# `cat 50Hz/*/*_accel.csv | grep -vc time_list`
N_ACC_ROWS = 571_460


def write_trial(folder: Path, *, rate_hz: float = 50.0, n: int = 200, subject: str = "U01", trial: str = "R01") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for sensor in ("accel", "gyro"):
        rows = "".join(f"{i / rate_hz:.3f},{i / 8},0.0,9.8\n" for i in range(n))
        names = ",".join(f"{sensor}_{axis}_list" for axis in ("time", "x", "y", "z"))
        (folder / f"{subject}_{trial}_{sensor}.csv").write_text(f"\ufeff{names}\r\n" + rows)


def load(path: Path, variant: str | None = None) -> tuple[list[Recording], list[str]]:
    with open_dataset("weda-fall", path, variant=variant) as dataset:
        return list(dataset.iter_recordings()), dataset.report.notes


def rate_hz(recording: Recording) -> float:
    return float(1e9 / np.median(np.diff(recording.block.t_ns)))


def test_fall_times_are_read_behind_a_byte_order_mark(tmp_path: Path) -> None:
    """The first key of fall_timestamps.csv follows a BOM and the lines end in CR LF; seconds become ns."""
    write_trial(tmp_path / "50Hz" / "F01")
    write_trial(tmp_path / "50Hz" / "D01")
    (tmp_path / "fall_timestamps.csv").write_text("\ufefffilename,start_time,end_time\r\nF01/U01_R01,1.2,3.05\r\n")
    recordings, notes = load(tmp_path)
    assert [(r.activity, r.is_fall, r.fall_interval_ns) for r in recordings] == [
        ("D01", False, None),
        ("F01", True, (1_200_000_000, 3_050_000_000)),
    ]
    assert notes == []


@pytest.mark.parametrize(
    "row", ["", "F01/U01_R01,3.0,2.0", "F01/U01_R01,x,2.0", "F01/U01_R01,1.0", "F01/U01_R01,1,nan"]
)
def test_unusable_interval_is_a_note_and_the_fall_is_kept(tmp_path: Path, row: str) -> None:
    """A fall whose times are missing or reversed is a fall without interval."""
    write_trial(tmp_path / "50Hz" / "F01")
    (tmp_path / "fall_timestamps.csv").write_text(f"filename,start_time,end_time\n{row}\n")
    (recording,), notes = load(tmp_path)
    assert (recording.is_fall, recording.fall_interval_ns) == (True, None)
    assert notes == ["fall_timestamps.csv: no usable interval for F01/U01_R01"]


def test_missing_fall_times_are_a_note(tmp_path: Path) -> None:
    """Without the file every fall is loaded without interval, and the report says so once."""
    write_trial(tmp_path / "50Hz" / "F01")
    write_trial(tmp_path / "50Hz" / "F02")
    recordings, notes = load(tmp_path)
    assert [r.fall_interval_ns for r in recordings] == [None, None]
    assert notes == ["fall_timestamps.csv: not found: no fall has an annotated interval"]


def test_variant_picks_the_folder(tmp_path: Path) -> None:
    """50Hz is the default; 25Hz on request; the set's two folders are never mixed."""
    write_trial(tmp_path / "set" / "50Hz" / "D01")
    write_trial(tmp_path / "set" / "25Hz" / "D01", rate_hz=25.0)
    assert [rate_hz(r) for r in load(tmp_path)[0]] == pytest.approx([50.0], rel=1e-3)
    assert [rate_hz(r) for r in load(tmp_path, "25Hz")[0]] == pytest.approx([25.0], rel=1e-3)


def test_the_rate_folder_itself_may_be_given(tmp_path: Path) -> None:
    """--data .../50Hz is as good as the folder above it."""
    write_trial(tmp_path / "50Hz" / "D01")
    assert len(load(tmp_path / "50Hz")[0]) == 1


def test_unknown_variant_lists_the_known_ones(tmp_path: Path) -> None:
    """One line with both names."""
    with pytest.raises(DataError, match="variant of weda-fall: must be 50Hz, 25Hz; got '100Hz'"):
        open_dataset("weda-fall", tmp_path, variant="100Hz")


def test_swapped_groups_of_rows_are_put_back(tmp_path: Path) -> None:
    """Rows 100 to 119 stand before rows 80 to 99: values come out in the order of their stamps, evenly spaced."""
    write_trial(tmp_path / "50Hz" / "D01")
    path = tmp_path / "50Hz" / "D01" / "U01_R01_accel.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows[:80], *rows[100:120], *rows[80:100], *rows[120:]]))
    (recording,), _ = load(tmp_path)
    assert recording.block.acc_ms2[:, 0].tolist() == [i / 8 for i in range(200)]
    assert np.diff(recording.block.t_ns) == pytest.approx(20_000_000, rel=1e-3)


def test_clock_starts_at_the_first_sample_even_where_its_row_was_swapped(tmp_path: Path) -> None:
    """In D06/U14_R01 the gyroscope's stamps run from -0.36 s, its first message having been swapped: it starts at 0."""
    write_trial(tmp_path / "50Hz" / "D01")
    path = tmp_path / "50Hz" / "D01" / "U01_R01_gyro.csv"
    path.write_text("h\n" + "".join(f"{i / 50 - 0.36:.3f},{i / 8},0.0,0.0\n" for i in range(200)))
    (recording,), _ = load(tmp_path)
    assert recording.block.gyr_rads[:, 0] == pytest.approx(np.arange(200) / 8, abs=1e-6)


def test_first_fall_of_the_real_set_keeps_its_rows_and_gets_its_true_rate(shared_data: Path) -> None:
    """F01/U01_R01, from a folder called 50Hz: the accelerometer's rows in their order, annotated 4.7 to 7.7 s."""
    with zipfile.ZipFile(shared_data / "weda-fall.zip") as archive:
        raw = np.genfromtxt(
            io.BytesIO(archive.read("dataset/50Hz/F01/U01_R01_accel.csv")), delimiter=",", skip_header=1
        )
    with open_dataset("weda-fall", shared_data / "weda-fall.zip") as dataset:
        recording = next(r for r in dataset.iter_recordings() if r.is_fall)
    assert recording.name == "weda-fall/U01/F01/R01"
    assert recording.fall_interval_ns == (4_700_000_000, 7_700_000_000)
    first = next(i for i in range(5) if raw[i, 1:].tolist() == recording.block.acc_ms2[0].tolist())
    assert recording.block.acc_ms2.tolist() == raw[first : first + len(recording.block), 1:].tolist()
    assert rate_hz(recording) == pytest.approx(len(raw) / raw[-1, 0], rel=0.015)  # one burst of 0.1 s in 12 s is 0.8 %


@pytest.mark.slow
def test_whole_real_set_has_one_faithful_clock(shared_data: Path) -> None:
    """350 falls of 14 people, 619 activities of 25; rates 39.5 and 49.4 Hz; impacts lie where they are annotated."""
    falls, normals = [], []
    n_peaks_inside = 0
    holes = []
    with open_dataset("weda-fall", shared_data / "weda-fall.zip") as dataset:
        for r in dataset.iter_recordings():
            (falls if r.is_fall else normals).append((r.subject, rate_hz(r)))
            assert (np.diff(r.block.t_ns) > 0).all()
            longest_s = np.diff(r.block.t_ns).max() / 1e9
            if longest_s > 0.03:
                holes.append((r.name.removeprefix("weda-fall/"), round(float(longest_s), 2)))
            if r.fall_interval_ns is not None:
                peak_ns = r.block.t_ns[np.argmax(np.linalg.norm(r.block.acc_ms2, axis=1))]
                n_peaks_inside += r.fall_interval_ns[0] <= peak_ns <= r.fall_interval_ns[1]
    assert (len(falls), len({subject for subject, _ in falls})) == (350, 14)
    assert (len(normals), len({subject for subject, _ in normals})) == (619, 25)
    slow = [rate for _, rate in falls if rate < 45]
    fast = [rate for _, rate in falls + normals if rate >= 45]
    assert len(slow) == 325
    # no file strays: a wrong slope, a missed hole or an unsorted group would
    assert (min(slow), max(slow)) == pytest.approx((39.52, 39.52), abs=0.15)
    assert (min(fast), max(fast)) == pytest.approx((49.4, 49.4), abs=0.2)
    assert n_peaks_inside == 348
    # the only accelerometer files whose stamps never come back to the line: one message of 19 samples is 0.385 s
    assert sorted(holes) == [
        ("U07/D04/R02", 0.42),
        ("U10/F08/R03", 0.23),
        ("U14/D11/R02", 0.4),
        ("U21/D09/R03", 0.1),
    ]
    report = dataset.report
    assert set(report.by_reason()) == {"outside the gyroscope's time"}
    assert report.n_samples + report.n_refused == N_ACC_ROWS
    assert report.notes == []


@pytest.mark.slow
def test_whole_25hz_folder_is_loaded(shared_data: Path) -> None:
    """The same trials at half the rate."""
    with open_dataset("weda-fall", shared_data / "weda-fall.zip", variant="25Hz") as dataset:
        rates = [rate_hz(r) for r in dataset.iter_recordings()]
    assert len(rates) == 969
    assert np.median(rates) == pytest.approx(24.7, abs=0.1)
