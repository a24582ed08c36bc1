"""SmartFallMM: clocks that run wrong, files of another sensor, and the real sample counted independently."""

import math
import zipfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.samples import Recording

G_MS2 = 9.80665
START = datetime(2022, 8, 4, 11, 24, 2, 384_000)
START_NS = 1_659_612_242_384_000_000  # `date -u -d '2022-08-04 11:24:02.384' +%s%N`


def stamps(step_ms: float, n: int) -> list[datetime]:
    return [START + timedelta(milliseconds=step_ms * i) for i in range(n)]


def watch_rows(times: list[datetime], values: str) -> list[str]:
    return [f"{t.isoformat(' ', 'milliseconds')},{values}" for t in times]


def hip_rows(times: list[datetime], values: str) -> list[str]:
    # in real files too the epoch may have been rounded to one value
    return [f"1659200000000,{t.isoformat('T', 'milliseconds')},0.0,{values}" for t in times]


def write(folder: Path, device: str, acc: list[str], gyr: list[str], *, name: str = "S29A10T01") -> Path:
    for sensor, rows in (("accelerometer", acc), ("gyroscope", gyr)):
        path = folder / "young" / sensor / device / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows) + "\n")
    return folder


def load(path: Path, variant: str | None = None) -> tuple[list[Recording], dict[str, int], list[str]]:
    with open_dataset("smartfallmm", path, variant=variant) as dataset:
        return list(dataset.iter_recordings()), dataset.report.by_reason(), dataset.report.notes


def test_watch_is_the_default_and_in_si_units_already(tmp_path: Path) -> None:
    """m/s2 and rad/s stay as they are; the stamp is read as it stands; A10 is a fall."""
    write(tmp_path, "watch", watch_rows(stamps(30, 200), "0.5,9.75,-1.0"), watch_rows(stamps(20, 400), "1.0,2.0,3.0"))
    (recording,), reasons, notes = load(tmp_path)
    block = recording.block
    assert (recording.name, recording.placement, recording.is_fall) == ("smartfallmm/S29/A10/T01", "wrist", True)
    assert block.t_ns[0] == pytest.approx(START_NS, abs=1000)
    assert np.diff(block.t_ns) == pytest.approx(30_000_000, abs=1000)
    assert block.acc_ms2[5].tolist() == [0.5, 9.75, -1.0]
    assert block.gyr_rads[5].tolist() == [1.0, 2.0, 3.0]
    assert (len(block), reasons, notes) == (200, {}, [])


def test_hip_is_in_g_and_deg_per_s_and_its_rounded_epoch_is_not_used(tmp_path: Path) -> None:
    """1 g and 90 deg/s, 40 ms apart by the date that stands beside an epoch of one value."""
    write(tmp_path, "meta_hip", hip_rows(stamps(40, 100), "1.0,0.0,0.5"), hip_rows(stamps(20, 200), "90.0,0.0,0.0"))
    (recording,), reasons, notes = load(tmp_path, "hip")
    assert recording.block.acc_ms2[0] == pytest.approx([G_MS2, 0, G_MS2 / 2])
    assert recording.block.gyr_rads[0] == pytest.approx([math.pi / 2, 0, 0])
    assert recording.block.t_ns.tolist() == [START_NS + 40_000_000 * i for i in range(100)]
    assert (recording.placement, reasons, notes) == ("waist", {}, [])


def test_hip_gyroscope_stamped_too_slowly_gets_its_own_time_back(tmp_path: Path) -> None:
    """Row i of a gyroscope stamped every 31 ms was taken at 20 ms times i, as the accelerometer beside it shows."""
    gyr = [row.replace("V", str(i / 4)) for i, row in enumerate(hip_rows(stamps(31, 201), "V,0.0,0.0"))]
    write(tmp_path, "meta_hip", hip_rows(stamps(40, 100), "1.0,0.0,0.0"), gyr)
    (recording,), reasons, notes = load(tmp_path, "hip")
    assert np.degrees(recording.block.gyr_rads[:, 0]) == pytest.approx(np.arange(100) / 2, abs=1e-9)
    assert reasons == {}
    assert notes == [
        "young/gyroscope/meta_hip/S29A10T01.csv: samples taken every 20 ms are stamped every 31 ms, clock restored"
    ]


def test_rows_behind_a_hole_of_a_wrong_clock_are_refused(tmp_path: Path) -> None:
    """How long 3 s of such a clock were cannot be told: only the 50 rows before the hole are used, 1 s of them."""
    times = stamps(31, 150)
    gyr = hip_rows([*times[:50], *(t + timedelta(seconds=3) for t in times[50:])], "1.0,0.0,0.0")
    write(tmp_path, "meta_hip", hip_rows(stamps(40, 100), "1.0,0.0,0.0"), gyr)
    (recording,), reasons, _ = load(tmp_path, "hip")
    assert len(recording.block) == 25  # 0 to 960 ms; the gyroscope ends at 980 ms
    assert reasons == {"behind a hole of a wrong clock": 100, "outside the gyroscope's time": 75}


@pytest.mark.parametrize("values", ["5.1,-3.0,2.0", "0.06,0.05,-0.01"])
def test_gyroscope_in_the_accelerometers_folder_is_refused_by_its_values(tmp_path: Path, values: str) -> None:
    """A median |a| of 6 g, or of 0.1 g, is no body under gravity, whatever the file is called."""
    write(tmp_path, "meta_hip", hip_rows(stamps(40, 100), values), hip_rows(stamps(20, 200), "9.0,0.0,0.0"))
    recordings, reasons, notes = load(tmp_path, "hip")
    assert recordings == []
    assert reasons == {"no acceleration with gravity": 100}
    assert len(notes) == 1
    assert "is no acceleration with gravity: another sensor's file, passed over" in notes[0]


def test_bursts_of_a_watch_are_spread_over_the_line_of_sampling(tmp_path: Path) -> None:
    """Pairs that arrive together every 60 ms, some with one stamp, were taken 30 ms apart; no row is lost."""
    arrival = [START + timedelta(milliseconds=60 * (i // 2 + 1)) for i in range(200)]
    acc = [row.replace("V", str(i / 64)) for i, row in enumerate(watch_rows(arrival, "V,9.75,0.0"))]
    write(tmp_path, "watch", acc, watch_rows(stamps(20, 400), "1.0,0.0,0.0"))
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.acc_ms2[:, 0].tolist() == [i / 64 for i in range(200)]
    assert np.diff(recording.block.t_ns) == pytest.approx(30_000_000, rel=0.001)
    assert reasons == {}


def test_file_whose_rate_changes_keeps_the_stamps_of_arrival(tmp_path: Path) -> None:
    """10 ms apart, then 30 ms: one line would be off by seconds; the stamps are kept, and it is said."""
    acc = [*stamps(10, 300), *(START + timedelta(milliseconds=3000 + 30 * i) for i in range(300))]
    write(tmp_path, "watch", watch_rows(acc, "0.0,9.75,0.0"), watch_rows(stamps(20, 700), "1.0,0.0,0.0"))
    (recording,), _, notes = load(tmp_path)
    expected = [START_NS + round((t - START) / timedelta(milliseconds=1)) * 1_000_000 for t in acc]
    assert recording.block.t_ns.tolist() == expected
    assert notes == ["young/accelerometer/watch/S29A10T01.csv: stamps of arrival lie on no line, used as they are"]


def test_jump_of_minutes_backwards_is_refused_and_swapped_rows_are_sorted(tmp_path: Path) -> None:
    """Rows of 2 minutes ago are no part of this recording; two rows swapped within a second are."""
    times = stamps(30, 200)
    times[50], times[51] = times[51], times[50]
    acc = [*times, *(t - timedelta(minutes=2) for t in times[:30])]
    write(tmp_path, "watch", watch_rows(acc, "0.0,9.75,0.0"), watch_rows(stamps(20, 400), "1.0,0.0,0.0"))
    (recording,), reasons, _ = load(tmp_path)
    assert (len(recording.block), reasons) == (200, {"stamp jumps back": 30})
    assert (np.diff(recording.block.t_ns) > 0).all()


def test_header_lines_and_damaged_rows_are_counted(tmp_path: Path) -> None:
    """A line of names, a row whose stamp is gone, a column missing, a value that no watch measures."""
    acc = watch_rows(stamps(30, 200), "0.0,9.75,0.0")
    bad = [
        "time,x,y,z",
        "0.2185789,-0.51653004,0.0024422223,Unnamed: 3",
        acc[0] + ",1.0",
        acc[0].replace("9.75", "1e3"),
    ]
    write(tmp_path, "watch", [*bad, *acc], watch_rows(stamps(20, 400), "1.0,0.0,0.0"))
    (recording,), reasons, _ = load(tmp_path)
    assert len(recording.block) == 200
    assert reasons == {"unknown stamp": 2, "wrong number of fields": 1, "impossible value": 1}


def test_files_without_partner_of_another_time_or_without_rows_are_named(tmp_path: Path) -> None:
    """Each costs its trial alone, and the accelerometer's rows are counted."""
    acc, gyr = watch_rows(stamps(30, 100), "0.0,9.75,0.0"), watch_rows(stamps(20, 200), "1.0,0.0,0.0")
    late = watch_rows([t + timedelta(minutes=8) for t in stamps(20, 200)], "1.0,0.0,0.0")
    for name, rows in (
        ("S29A01T01", gyr),
        ("S29A01T02", late),
        ("S29A01T03", ["1,2,3,Unnamed: 3"]),
        ("S29A01T04", gyr),
    ):
        write(tmp_path, "watch", acc, rows, name=name)
    (tmp_path / "young/gyroscope/watch/S29A01T04.csv").unlink()
    recordings, reasons, notes = load(tmp_path)
    assert [(r.trial, r.is_fall) for r in recordings] == [("T01", False)]
    assert reasons == {"outside the gyroscope's time": 200, "unknown stamp": 1}
    assert notes == [
        "young/accelerometer/watch/S29A01T04.csv: no gyroscope file of the same trial, passed over",
        "young/accelerometer/watch/S29A01T02.csv: its gyroscope file is of another time, passed over",
        "young/gyroscope/watch/S29A01T03.csv: no usable row, passed over",
    ]


def test_fall_whose_impact_has_no_gyroscope_is_named(tmp_path: Path) -> None:
    """The gyroscope ends before the largest |a|: what is used may hold no fall."""
    acc = watch_rows(stamps(30, 200), "0.0,9.75,0.0")
    acc[150] = acc[150].replace("9.75", "45.0")
    write(tmp_path, "watch", acc, watch_rows(stamps(20, 200), "1.0,0.0,0.0"))
    _, reasons, notes = load(tmp_path)
    assert reasons == {"outside the gyroscope's time": 67}  # the gyroscope ends at 3980 ms, after row 132
    assert notes == [
        "young/accelerometer/watch/S29A10T01.csv: the fall's largest |a| lies where there is no gyroscope "
        "and is not in what is used"
    ]


def test_unknown_activity_is_a_note(tmp_path: Path) -> None:
    """A15 is neither taken for a fall nor for normal activity."""
    acc, gyr = watch_rows(stamps(30, 100), "0.0,9.75,0.0"), watch_rows(stamps(20, 200), "1.0,0.0,0.0")
    for activity in (9, 10, 14, 15):
        write(tmp_path, "watch", acc, gyr, name=f"S29A{activity:02d}T01")
    recordings, _, notes = load(tmp_path)
    assert [(r.activity, r.is_fall) for r in recordings] == [("A09", False), ("A10", True), ("A14", True)]
    assert len(notes) == 2
    assert "S29A15T01.csv: activity A15 is not one of SmartFallMM's, passed over" in notes[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "device", "people", "step_ms"),
    [
        ("watch", "watch", {("S29", False): 4, ("S30", False): 14, ("S30", True): 21}, None),
        ("hip", "meta_hip", {("S29", False): 3, ("S29", True): 4}, 40.0),
    ],
)
def test_real_sample_is_accounted_for_row_by_row(
    shared_data: Path, variant: str, device: str, people: dict[tuple[str, bool], int], step_ms: float | None
) -> None:
    """Rows of accelerometers that have a gyroscope file, counted by lines; lost files named; |a| at rest near 1 g."""
    path = shared_data / "smartfallmm-sample.zip"
    with zipfile.ZipFile(path) as archive:
        names = {sensor: set() for sensor in ("accelerometer", "gyroscope")}
        for name in archive.namelist():
            parts = name.split("/")
            if len(parts) == 4 and parts[2] == device and parts[3]:
                names[parts[1]].add(parts[3])
        paired = names["accelerometer"] & names["gyroscope"]
        n_rows = sum(archive.read(f"young/accelerometer/{device}/{name}").count(b"\n") for name in paired)
    with open_dataset("smartfallmm", path, variant=variant) as dataset:
        recordings = list(dataset.iter_recordings())
    report = dataset.report
    refused = sum(n for (file, _), n in report.refused.items() if "/accelerometer/" in file)
    assert Counter((r.subject, r.is_fall) for r in recordings) == people
    assert report.n_samples + refused == n_rows
    lost = [note for note in report.notes if "no gyroscope file" in note]
    assert len(lost) == len(names["accelerometer"] - paired)
    if step_ms is not None:
        assert {float(np.median(np.diff(r.block.t_ns))) / 1e6 for r in recordings} == {step_ms}
    at_rest = [np.median(np.linalg.norm(r.block.acc_ms2, axis=1)) for r in recordings]
    assert np.median(at_rest) == pytest.approx(9.8, abs=0.3)
