"""UMAFall: one file of many sensors, places in its header, what a spreadsheet spoilt, and the real sample counted."""

import math
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.samples import Recording

G_MS2 = 9.80665
HEADER = """% Universidad de Malaga
% Number of Sensors: 5

% MAC Address; Sensor_ID; Position; Device Model
%f8:95:c7:f3:ba:82; 0; RIGHTPOCKET; lge-LG-H815-5.1
%B0:B4:48:B8:77:03; 4; ANKLE; SensorTag
%C4:BE:84:71:A5:02; 7; WAIST; SensorTag
%C4:BE:84:70:0E:80; 3; WRIST; SensorTag

% TimeStamp; Sample No; X-Axis; Y-Axis; Z-Axis; Sensor Type; Sensor ID;
"""
NAME = "UMAFall_Subject_08_Fall_forwardFall_1_2016-06-18_14-27-16.csv"


def rows_of(sensor: int, n: int = 40) -> list[str]:
    rows = []
    for i in range(n):
        rows += [
            f"{50 * i + 2};{i};0.5;-0.25;{i / 128};0;{sensor}",
            f"{50 * i + 2};{i + 1};90.0;{i / 4};0.0;1;{sensor}",
            f"{50 * i + 2};{i + 2};12.0;3.0;4.0;2;{sensor}",
        ]
    return rows


def write(folder: Path, rows: list[str], *, name: str = NAME, header: str = HEADER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(header + "\n".join(rows) + "\n")
    return folder


def load(path: Path, variant: str | None = None) -> tuple[list[Recording], dict[str, int], list[str]]:
    with open_dataset("umafall", path, variant=variant) as dataset:
        return list(dataset.iter_recordings()), dataset.report.by_reason(), dataset.report.notes


def test_place_is_looked_up_in_the_files_own_header(tmp_path: Path) -> None:
    """Sensor 7 is at the waist here; the wrist's rows, the phone's and the magnetometer's are not mixed in."""
    phone = ["1;1;0.1;0.9;0.1;0;0", "1;2;0.1;0.9;0.1;0;0"]
    write(tmp_path, [*phone, *rows_of(7), *rows_of(3, 30)])
    (recording,), reasons, notes = load(tmp_path)
    block = recording.block
    assert block.acc_ms2[8] == pytest.approx([G_MS2 / 2, -G_MS2 / 4, G_MS2 / 16], abs=1e-12)
    assert block.gyr_rads[8] == pytest.approx([math.pi / 2, math.radians(2), 0], abs=1e-12)
    assert block.t_ns.tolist() == [(50 * i + 2) * 1_000_000 for i in range(40)]
    assert (recording.placement, reasons, notes) == ("waist", {}, [])
    (wrist,), _, _ = load(tmp_path, "wrist")
    assert (wrist.placement, len(wrist.block)) == ("wrist", 30)


def test_sensor_that_is_not_there_is_named(tmp_path: Path) -> None:
    """No chest in the header; an ankle in the header that never sent a row."""
    write(tmp_path, rows_of(7))
    assert load(tmp_path, "chest")[2] == [f"{NAME}: no sensor at the chest in its header, passed over"]
    assert load(tmp_path, "ankle")[2] == [
        f"{NAME}: no row of the ankle's accelerometer and no row of the ankle's gyroscope, passed over"
    ]


def test_names_say_person_kind_activity_and_trial(tmp_path: Path) -> None:
    """Activities may hold '_'; one trial number comes at two times; a name of another form is a note."""
    names = [
        "UMAFall_Subject_10_ADL_Sitting_GettingUpOnAChair_2_2017-04-14_23-28-52.csv",
        "UMAFall_Subject_01_ADL_OpeningDoor_1_2017-04-14_23-36-23.csv",
        "UMAFall_Subject_01_ADL_OpeningDoor_1_2017-04-14_23-35-12.csv",
        "UMAFall_Subject_01_Fall_lateralFall_1_2017-04-14_23-35-12.csv",
        "UMAFall_Subject_01_ADL.csv",
    ]
    for name in names:
        write(tmp_path / "x", rows_of(7), name=name)
    recordings, _, notes = load(tmp_path)
    assert [(r.subject, r.activity, r.trial, r.is_fall) for r in recordings] == [
        ("01", "ADL_OpeningDoor", "1_2017-04-14_23-35-12", False),
        ("01", "ADL_OpeningDoor", "1_2017-04-14_23-36-23", False),
        ("01", "Fall_lateralFall", "1_2017-04-14_23-35-12", True),
        ("10", "ADL_Sitting_GettingUpOnAChair", "2_2017-04-14_23-28-52", False),
    ]
    assert notes == [f"x/{names[-1]}: name says no person, kind, activity, trial and date, passed over"]


def test_semicolons_at_the_end_and_blank_lines_are_no_damage(tmp_path: Path) -> None:
    """Subject 13's files end every line with ';', and their blank lines are made of them."""
    header = "".join(f"{line};;;;\n" if not line.startswith("%C4") else f"{line};\n" for line in HEADER.splitlines())
    write(tmp_path, [*(f"{row};" for row in rows_of(7)), "   ;;;;;;;", ""], header=header)
    (recording,), reasons, notes = load(tmp_path)
    assert (len(recording.block), reasons, notes) == (40, {}, [])


def test_a_few_damaged_rows_are_refused_and_counted(tmp_path: Path) -> None:
    """A regrouped number, one that may be regrouped, a decimal comma, a value beyond 16 g, a row cut short."""
    rows = rows_of(7, 100)
    rows[0] = rows[0].replace("0.5", "1.012.598.156.929.010")
    rows[3] = rows[3].replace("0.5", "-4.875")  # 4.875 g or 48.75 g: nobody knows, once a spreadsheet was there
    rows[6] = rows[6].replace("0.5", "-6,10E+10")
    rows[9] = rows[9].replace("0.5", "97.5")
    rows[12] = rows[12].rpartition(";")[0]
    write(tmp_path, rows)
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.t_ns[0] == 252_000_000
    assert len(recording.block) == 95
    assert reasons == {
        "number regrouped by a spreadsheet": 2,
        "not a number": 1,
        "impossible value": 1,
        "wrong number of fields": 1,
    }


def test_number_of_three_decimals_is_one_where_nothing_was_regrouped(tmp_path: Path) -> None:
    """4.875 in a clean file is 4.875."""
    rows = rows_of(7)
    rows[0] = rows[0].replace("0.5", "-4.875")
    write(tmp_path, rows)
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.acc_ms2[0, 0] == pytest.approx(-4.875 * G_MS2)
    assert reasons == {}


def test_file_that_lost_its_large_values_is_no_quiet_recording(tmp_path: Path) -> None:
    """11 of 100 accelerometer rows spoilt, those above 1 g: the rest would look like rest and is refused."""
    rows = rows_of(7, 100)
    for i in range(11):
        rows[3 * i + 90] = rows[3 * i + 90].replace("0.5", "1.012.598.156.929.010")
    write(tmp_path, rows)
    recordings, reasons, notes = load(tmp_path)
    assert recordings == []
    assert reasons == {"number regrouped by a spreadsheet": 11, "left over where more is lost": 189}
    assert notes == [f"{NAME}: 11 of 100 rows of the waist's accelerometer lost, passed over"]


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "sensor"), [("waist", "2"), ("wrist", "3"), ("chest", "1"), ("ankle", "4")])
def test_real_sample_loses_subject_13_alone_and_every_row_is_accounted_for(
    shared_data: Path, variant: str, sensor: str
) -> None:
    """12 falls, 28 activities of 3 people at 20 Hz; subject 13's 20 files are refused and named."""
    path = shared_data / "umafall-sample.zip"
    n_acc, n_gyr_13 = 0, 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            rows = [line.strip().rstrip("; ") for line in archive.read(name).decode("latin-1").splitlines()]
            n_acc += sum(row.endswith(f";0;{sensor}") for row in rows)
            n_gyr_13 += sum(row.endswith(f";1;{sensor}") for row in rows) if "_13_" in name else 0
    with open_dataset("umafall", path, variant=variant) as dataset:
        recordings = list(dataset.iter_recordings())
    report = dataset.report
    assert Counter((r.subject, r.is_fall) for r in recordings) == {
        ("01", False): 19,
        ("08", False): 4,
        ("08", True): 6,
        ("16", False): 5,
        ("16", True): 6,
    }
    assert report.n_samples + report.n_refused == n_acc + n_gyr_13
    assert len(report.notes) == 20
    assert all("_Subject_13_" in note for note in report.notes)
    steps_ms = [float(np.median(np.diff(r.block.t_ns))) / 1e6 for r in recordings]
    assert (min(steps_ms), max(steps_ms)) == pytest.approx((50, 50), abs=3)
    at_rest = [np.median(np.linalg.norm(r.block.acc_ms2, axis=1)) for r in recordings]
    assert np.median(at_rest) == pytest.approx(9.8, abs=0.4)
