"""CSV with units in its column names: units converted, never guessed; recordings split where ids change."""

from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import Dataset, open_dataset
from stream_occ.errors import DataError
from stream_occ.samples import Recording

SI = "acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads"
VALUES = "0.5,0.25,9.75,0.1,0.2,0.3"


def load(path: Path) -> tuple[list[Recording], Dataset]:
    with open_dataset("csv", path) as dataset:
        return list(dataset.iter_recordings()), dataset


def write(path: Path, header: str, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_si_columns_come_through_bit_for_bit(tmp_path: Path) -> None:
    """One file alone is a data set; values in SI are not touched."""
    (recording,), _ = load(write(tmp_path / "a.csv", f"t_ns,{SI}", f"1657533977813000123,{VALUES}"))
    assert recording.block.t_ns.tolist() == [1657533977813000123]
    assert recording.block.acc_ms2.tolist() == [[0.5, 0.25, 9.75]]
    assert recording.block.gyr_rads.tolist() == [[0.1, 0.2, 0.3]]
    assert recording.block.t_ns.dtype == np.int64


@pytest.mark.parametrize(
    ("column", "text", "t_ns"),
    [
        ("t_ns", "12", 12),
        ("t_us", "1657533977813001", 1657533977813001000),
        ("t_ms", "1657533977813", 1657533977813000000),
        ("t_ms", "1657533977813.25", 1657533977813250000),
        ("t_s", "12.1", 12100000000),
        ("t_s", "-1", -1000000000),
    ],
)
def test_stamps_are_in_the_unit_of_their_name(tmp_path: Path, column: str, text: str, t_ns: int) -> None:
    """Whole numbers and fractions of each unit become whole ns."""
    (recording,), _ = load(write(tmp_path / "a.csv", f"{column},{SI}", f"{text},{VALUES}"))
    assert recording.block.t_ns.tolist() == [t_ns]


@pytest.mark.parametrize(
    ("acc", "gyr", "acc_ms2", "gyr_rads"),
    [
        ("ms2", "rads", 2.0, 3.0),
        ("g", "dps", 19.6133, 0.05235987755982988),
        ("mg", "mdps", 0.0196133, 5.235987755982988e-05),
    ],
)
def test_values_are_in_the_unit_of_their_name(
    tmp_path: Path, acc: str, gyr: str, acc_ms2: float, gyr_rads: float
) -> None:
    """1 g is 9.80665 m/s2 (ISO 80000-3), 180 degrees are pi."""
    names = ",".join([*(f"acc_{a}_{acc}" for a in "xyz"), *(f"gyr_{a}_{gyr}" for a in "xyz")])
    (recording,), _ = load(write(tmp_path / "a.csv", f"t_ms,{names}", "0,2,0,0,3,0,0"))
    assert recording.block.acc_ms2[0, 0] == pytest.approx(acc_ms2, rel=1e-15)
    assert recording.block.gyr_rads[0, 0] == pytest.approx(gyr_rads, rel=1e-15)


def test_order_of_columns_case_and_mark_do_not_matter(tmp_path: Path) -> None:
    """Columns are known by their names; Excel's byte order mark, capitals, comment lines and quotes are no harm."""
    path = tmp_path / "a.csv"
    names = '# made by hand\n"GYR_X_RADS",acc_z_ms2,acc_y_ms2,acc_x_ms2,gyr_y_rads,gyr_z_rads,T_ms'
    path.write_bytes(b"\xef\xbb\xbf" + (names + "\n# more\n1,2,3,4,5,6,7\n").encode())
    (recording,), _ = load(path)
    assert recording.block.t_ns.tolist() == [7_000_000]
    assert recording.block.acc_ms2.tolist() == [[4.0, 3.0, 2.0]]
    assert recording.block.gyr_rads.tolist() == [[1.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("t_ms,acc_x,acc_y,acc_z,gyr_x_dps,gyr_y_dps,gyr_z_dps", "name one known unit .* got acc_x, acc_y, acc_z"),
        (f"t_ms,{SI}".replace("acc_z_ms2", "acc_z_g"), "name one known unit .* got acc_x_ms2, acc_y_ms2, acc_z_g"),
        (f"t_ms,{SI}".replace("_rads", "_rpm"), "name one known unit .*gyr_x_rads or gyr_x_dps.*got gyr_x_rpm"),
        (f"t_ms,{SI}".replace(",gyr_y_rads", ""), "have gyr_x, _y and _z with their unit .* no column of axis y"),
        ("t_ms,acc_x_g,acc_y_g,acc_z_g", "have gyr_x, _y and _z .* no column of axis x, y, z"),
        (SI, "have one of t_ns, t_us, t_ms, t_s; got no such column"),
        (f"t_ms,t_s,{SI}", "have one of t_ns, t_us, t_ms, t_s; got t_ms, t_s"),
        (f"t_ms,{SI},t_ms", "name each column once"),
    ],
)
def test_header_without_known_units_is_refused_in_one_line(tmp_path: Path, header: str, message: str) -> None:
    """A unit that is missing, mixed or unknown is never guessed: one line says what would be right."""
    path = write(tmp_path / "a.csv", header, "0" + ",1" * header.count(","))
    with pytest.raises(DataError, match=rf"a\.csv: header: must {message}") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_folder_without_any_recording_is_refused(tmp_path: Path) -> None:
    """Other CSV files are not recordings; a folder of nothing else is the wrong folder."""
    write(tmp_path / "prices.csv", "name,price", "tea,3")
    with pytest.raises(DataError, match="must hold files of csv"):
        open_dataset("csv", tmp_path)


def test_file_of_other_separators_is_refused_with_its_reason(tmp_path: Path) -> None:
    """Semicolons between columns: the line says what is wrong with the file, not only that none was found."""
    (tmp_path / "a.csv").write_text("t_ms;acc_x_g;acc_y_g\n0;0;1\n")
    with pytest.raises(DataError, match=r"got 1 other files \(a\.csv: .* no column of a recording in its first line"):
        open_dataset("csv", tmp_path)


def test_other_csv_beside_recordings_is_a_note(tmp_path: Path) -> None:
    """A list of participants beside the recordings is named and passed over."""
    write(tmp_path / "people.csv", "name,age", "ann,80")
    write(tmp_path / "a.csv", f"t_ms,{SI}", f"0,{VALUES}")
    recordings, dataset = load(tmp_path)
    assert len(recordings) == 1
    assert dataset.report.notes == ["people.csv: unreadable or no column of a recording in its first line, passed over"]


@pytest.mark.parametrize(
    ("name", "subject", "activity", "trial"),
    [
        ("ann/walking/03.csv", "ann", "walking", "03"),
        ("home/ann/walking/03.csv", "ann", "walking", "03"),
        ("ann/03.csv", "ann", "unknown", "03"),
        ("03.csv", "unknown", "unknown", "03"),
    ],
)
def test_folders_name_what_no_column_does(tmp_path: Path, name: str, subject: str, activity: str, trial: str) -> None:
    """subject/activity/trial.csv, or subject/trial.csv, or trial.csv."""
    write(tmp_path / name, f"t_ms,{SI}", f"0,{VALUES}")
    (recording,), _ = load(tmp_path)
    assert (recording.subject, recording.activity, recording.trial) == (subject, activity, trial)
    assert (recording.is_fall, recording.placement, recording.fall_interval_ns) == (False, "unknown", None)


def test_recording_starts_where_an_id_column_changes(tmp_path: Path) -> None:
    """One export of many trials: each run of equal ids is a recording, in the order of the file."""
    header = f"subject,activity,trial,is_fall,placement,fall_start_s,fall_end_s,t_s,{SI}"
    path = write(
        tmp_path / "all.csv",
        header,
        f"ann,walk,1,0,wrist,,,100,{VALUES}",
        f"ann,walk,1,0,wrist,,,101,{VALUES}",
        f'"ann",walk,2,no,wrist,,,102,{VALUES}',
        f"ann,fall,1,TRUE,waist,0.5,2.25,200,{VALUES}",
        f"bob,walk,1,,,,,300,{VALUES}",
    )
    recordings, _ = load(path)
    assert [(r.subject, r.activity, r.trial, r.is_fall, r.placement, len(r.block)) for r in recordings] == [
        ("ann", "walk", "1", False, "wrist", 2),
        ("ann", "walk", "2", False, "wrist", 1),
        ("ann", "fall", "1", True, "waist", 1),
        ("bob", "walk", "1", False, "unknown", 1),
    ]
    assert [r.fall_interval_ns for r in recordings] == [None, None, (200_500_000_000, 202_250_000_000), None]


def test_rows_with_values_outside_their_list_are_refused(tmp_path: Path) -> None:
    """A placement or truth that is not in the list is refused with its row and counted by column."""
    path = write(
        tmp_path / "a.csv",
        f"is_fall,placement,fall_start_s,t_ms,{SI}",
        f"0,wrist,,0,{VALUES}",
        f"maybe,wrist,,1,{VALUES}",
        f"0,hat,,2,{VALUES}",
        f"0,wrist,nan,3,{VALUES}",
        "0,wrist,,4",
        f"0,wrist,,x,{VALUES}",
        f"0,wrist,,5,{VALUES.replace('9.75', '1e9')}",
    )
    recordings, dataset = load(path)
    assert [len(r.block) for r in recordings] == [1]
    assert dataset.report.by_reason() == {
        "unknown is_fall": 1,
        "unknown placement": 1,
        "unknown fall_start_s": 1,
        "wrong number of fields": 1,
        "not a number": 1,
        "impossible value": 1,
    }


def test_interval_that_contradicts_is_left_out_and_told(tmp_path: Path) -> None:
    """An interval that ends before it starts, or in normal activity, is not used; the recording is."""
    write(tmp_path / "a.csv", f"fall_start_s,fall_end_s,t_ms,{SI}", f"2,1,0,{VALUES}")
    write(tmp_path / "b.csv", f"is_fall,fall_start_s,fall_end_s,t_ms,{SI}", f"0,1,2,0,{VALUES}")
    recordings, dataset = load(tmp_path)
    assert [(r.is_fall, r.fall_interval_ns) for r in recordings] == [(True, None), (False, None)]
    assert [note.split(":")[0] for note in dataset.report.notes] == ["a.csv", "b.csv"]


def test_file_named_fall_without_the_column_is_told(tmp_path: Path) -> None:
    """Truth is declared, never read from a name; but whoever forgot the column is warned."""
    write(tmp_path / "ann" / "falls" / "1.csv", f"t_ms,{SI}", f"0,{VALUES}")
    recordings, dataset = load(tmp_path)
    assert [r.is_fall for r in recordings] == [False]
    assert dataset.report.notes == [
        "ann/falls/1.csv: has no is_fall column: taken as normal activity although its name says fall"
    ]


def test_file_of_a_header_alone_is_a_note(tmp_path: Path) -> None:
    """Nothing was recorded: named, no crash."""
    write(tmp_path / "a.csv", f"t_ms,{SI}")
    recordings, dataset = load(tmp_path)
    assert recordings == []
    assert dataset.report.notes == ["a.csv: no usable row, passed over"]
