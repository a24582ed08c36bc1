"""MobiFall: names, the merge of two sensors at two rates, and the whole set counted independently."""

from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.errors import DataError
from stream_occ.samples import Recording

MS = 1_000_000
HEADER = "#Acceleration force along the x y z axes (including gravity).\n#Subject ID: 2\n\n\n@DATA\n"
# rows after '@DATA' in the 630 accelerometer files, counted with awk: 'f&&NF{n++} /^@DATA/{f=1} END{print n}'
N_ACC_ROWS = 1_044_765


def write_trial(folder: Path, code: str, subject: int, trial: int, *, acc: str = "", gyr: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    acc = acc or "".join(f"{i * 10 * MS}, {i}.0, 9.8, 0.5\n" for i in range(100))
    gyr = gyr or "".join(f"{i * 5 * MS}, 0.0, {i / 8}, -1.0\n" for i in range(-60, 220))
    (folder / f"{code}_acc_{subject}_{trial}.txt").write_text(HEADER + acc)
    (folder / f"{code}_gyro_{subject}_{trial}.txt").write_text(HEADER + gyr)


def load(path: Path) -> tuple[list[Recording], dict[str, int], list[str]]:
    with open_dataset("mobifall", path) as dataset:
        return list(dataset.iter_recordings()), dataset.report.by_reason(), dataset.report.notes


def test_activity_is_the_file_names_not_the_folders(tmp_path: Path) -> None:
    """A sideward fall in the folder of forward falls, as in sub21, is one, beside that folder's own trial 1."""
    write_trial(tmp_path / "sub21" / "FALLS" / "FOL", "FOL", 21, 1)
    write_trial(tmp_path / "sub21" / "FALLS" / "FOL", "SDL", 21, 1)
    write_trial(tmp_path / "sub21" / "FALLS" / "FOL", "WAL", 21, 1)
    recordings, _, _ = load(tmp_path)
    assert [(r.activity, r.is_fall) for r in recordings] == [("FOL", True), ("SDL", True), ("WAL", False)]


def test_people_come_in_order_of_their_number(tmp_path: Path) -> None:
    """2 before 10, wherever their files lie; trial 9 before trial 10."""
    for subject, trial in ((10, 1), (2, 10), (2, 9)):
        write_trial(tmp_path / f"x{subject}", "STD", subject, trial)
    recordings, _, _ = load(tmp_path)
    assert [(r.subject, r.trial) for r in recordings] == [("2", "9"), ("2", "10"), ("10", "1")]


def test_gyroscope_lies_at_the_accelerometers_stamps(tmp_path: Path) -> None:
    """Gyroscope y counts 1/8 per 5 ms: at stamp t ms it is t / 40. The accelerometer's own values stay untouched."""
    write_trial(tmp_path, "JOG", 2, 1)
    (recording,), reasons, _ = load(tmp_path)
    block = recording.block
    assert block.t_ns.tolist() == [i * 10 * MS for i in range(100)]
    assert block.gyr_rads[:, 1].tolist() == [0.25 * i for i in range(100)]
    assert block.acc_ms2[:, 0].tolist() == [float(i) for i in range(100)]
    assert (recording.placement, recording.is_fall, recording.fall_interval_ns) == ("thigh", False, None)
    assert reasons == {"gyroscope settling": 30}  # 150 ms at 5 ms


def test_settling_gyroscope_is_not_used(tmp_path: Path) -> None:
    """The first 150 ms of the gyroscope's file are spikes and bias: rows that have nothing else are left out."""
    gyr = "".join(f"{i * 5 * MS}, {99 if i < 30 else 1}.0, 0.0, 0.0\n" for i in range(200))
    write_trial(tmp_path, "JOG", 2, 1, gyr=gyr)
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.t_ns[0] == 150 * MS
    assert (recording.block.gyr_rads[:, 0] == 1.0).all()
    assert reasons == {"gyroscope settling": 30, "outside the gyroscope's time": 15}


def test_hole_of_the_gyroscope_is_a_hole_of_the_recording(tmp_path: Path) -> None:
    """No value is made up for 0.6 s without gyroscope: those rows are left out and counted."""
    gyr = "".join(f"{i * 5 * MS}, 0.0, 0.0, 0.0\n" for i in range(-60, 260) if not 40 < i < 160)
    write_trial(tmp_path, "JOG", 2, 1, gyr=gyr)
    (recording,), reasons, _ = load(tmp_path)
    assert reasons["inside a hole of the gyroscope"] == 59  # stamps 210 to 790 ms
    assert recording.block.t_ns.tolist() == [i * 10 * MS for i in range(100) if not 20 < i < 80]


def test_file_without_partner_is_a_note(tmp_path: Path) -> None:
    """An accelerometer without gyroscope, or the reverse, costs that trial alone."""
    for trial in (1, 2, 3):
        write_trial(tmp_path, "JOG", 2, trial)
    (tmp_path / "JOG_gyro_2_1.txt").unlink()
    (tmp_path / "JOG_acc_2_2.txt").unlink()
    recordings, _, notes = load(tmp_path)
    assert [r.trial for r in recordings] == ["3"]
    assert notes == [
        "JOG_acc_2_1.txt: no gyroscope file of the same trial, passed over",
        "JOG_gyro_2_2.txt: no accelerometer file of the same trial, passed over",
    ]


def test_second_copy_of_a_trial_is_a_note(tmp_path: Path) -> None:
    """A set unpacked twice below one folder is not counted twice."""
    write_trial(tmp_path / "a", "JOG", 2, 1)
    write_trial(tmp_path / "b", "JOG", 2, 1)
    recordings, _, notes = load(tmp_path)
    assert len(recordings) == 1
    assert notes[0] == "b/JOG_acc_2_1.txt: a second file of the same trial, passed over; a/JOG_acc_2_1.txt is used"


def test_damaged_rows_are_counted_by_file_and_reason(tmp_path: Path) -> None:
    """Rows cut short, swapped for text or not finite are refused where they are, the rest of the file is used."""
    rows = ["0, 1.0, 9.8, 0.5", "1000, 1.0, 9.8", "2000, x, 9.8, 0.5", "3000, nan, 9.8, 0.5", "4000, 2.0, 9.8, 0.5"]
    acc = "\n".join(rows) + "\n"
    write_trial(tmp_path, "JOG", 2, 1, acc=acc)
    with open_dataset("mobifall", tmp_path) as dataset:
        (recording,) = dataset.iter_recordings()
    assert recording.block.acc_ms2[:, 0].tolist() == [1.0, 2.0]
    refused = {reason: n for (file, reason), n in dataset.report.refused.items() if file == "JOG_acc_2_1.txt"}
    assert refused == {"wrong number of fields": 1, "not a number": 1, "not finite": 1}
    assert "  JOG_acc_2_1.txt: 1 rows, not a number" in dataset.report.lines()


def test_file_without_usable_row_is_a_note(tmp_path: Path) -> None:
    """A file of nothing but its header, or without its @DATA line, is named and passed over."""
    write_trial(tmp_path, "JOG", 2, 1, acc="\n")
    write_trial(tmp_path, "JOG", 2, 2)
    (tmp_path / "JOG_acc_2_2.txt").write_text("0, 1.0, 9.8, 0.5\n")
    recordings, _, notes = load(tmp_path)
    assert recordings == []
    assert notes == [
        "JOG_acc_2_1.txt: no usable row, passed over",
        "JOG_acc_2_2.txt: no @DATA line, passed over",
    ]


def test_unknown_activity_code_is_a_note(tmp_path: Path) -> None:
    """A code that is not in the set's list is neither taken for a fall nor for normal activity."""
    write_trial(tmp_path, "XYZ", 2, 1)
    write_trial(tmp_path, "JOG", 2, 1)
    recordings, _, notes = load(tmp_path)
    assert [r.activity for r in recordings] == ["JOG"]
    assert notes[0] == "XYZ_acc_2_1.txt: activity code XYZ is not one of MobiFall's, passed over"


def test_variant_is_refused_where_there_is_none(tmp_path: Path) -> None:
    """MobiFall has one version alone."""
    write_trial(tmp_path, "JOG", 2, 1)
    with pytest.raises(DataError, match="variant of mobifall: must be left out: this set has one version alone"):
        open_dataset("mobifall", tmp_path, variant="50Hz")


def test_first_recording_of_the_real_set_equals_its_files(shared_data: Path) -> None:
    """Subject 1's first fall, read by an independent route: np.genfromtxt and np.interp on the raw files."""
    import io
    import zipfile

    with zipfile.ZipFile(shared_data / "mobifall.zip") as archive:
        raw = [archive.read(f"sub1/FALLS/BSC/BSC_{sensor}_1_1.txt").decode() for sensor in ("acc", "gyro")]
    acc, gyr = (np.genfromtxt(io.StringIO(text.split("@DATA")[1]), delimiter=",") for text in raw)
    gyr = gyr[gyr[:, 0] >= gyr[0, 0] + 150e6]
    acc = acc[(acc[:, 0] >= gyr[0, 0]) & (acc[:, 0] <= gyr[-1, 0])]
    with open_dataset("mobifall", shared_data / "mobifall.zip") as dataset:
        recording = next(dataset.iter_recordings())
    assert recording.name == "mobifall/1/BSC/1"
    assert recording.block.t_ns.tolist() == acc[:, 0].tolist()
    assert recording.block.acc_ms2.tolist() == acc[:, 1:].tolist()
    for axis in range(3):
        twin = np.interp(acc[:, 0], gyr[:, 0], gyr[:, 1 + axis])
        assert recording.block.gyr_rads[:, axis] == pytest.approx(twin, abs=1e-9)  # other order of operations


@pytest.mark.slow
def test_whole_real_set_is_loaded_and_every_row_accounted_for(shared_data: Path) -> None:
    """288 falls of 24 people, 342 activities of 9; accelerometer rows used and refused add up to those in the files."""
    with open_dataset("mobifall", shared_data / "mobifall.zip") as dataset:
        assert dataset.n_files == 630
        people: dict[bool, list[str]] = {True: [], False: []}
        codes: dict[str, int] = {}
        for r in dataset.iter_recordings():
            people[r.is_fall].append(r.subject)
            codes[r.activity] = codes.get(r.activity, 0) + 1
            assert (np.diff(r.block.t_ns) > 0).all()
            assert 7 < np.linalg.norm(r.block.acc_ms2, axis=1).mean() < 17  # m/s2 with gravity; jogging is highest
    report = dataset.report
    assert (len(people[True]), len(set(people[True]))) == (288, 24)
    assert (len(people[False]), len(set(people[False]))) == (342, 9)
    assert list(dict.fromkeys(people[False])) == ["2", "3", "4", "5", "7", "8", "9", "10", "11"]
    assert codes == {
        **dict.fromkeys(("FOL", "FKL", "BSC", "SDL"), 72),
        **dict.fromkeys(("STD", "WAL"), 9),
        **dict.fromkeys(("JOG", "JUM"), 27),
        **dict.fromkeys(("STU", "STN", "SCH", "CSI", "CSO"), 54),
    }
    assert people[True].count("21") == 12  # three of them lie in the wrong folder
    reasons = report.by_reason()
    left_out = reasons["outside the gyroscope's time"] + reasons.get("inside a hole of the gyroscope", 0)
    assert report.n_samples + left_out == N_ACC_ROWS
    assert left_out < 0.002 * N_ACC_ROWS
    assert reasons["gyroscope stamp seen before"] == 1  # sub10 STU 2, the one file with a doubled stamp
    assert set(reasons) <= {
        "gyroscope settling",
        "gyroscope stamp seen before",
        "outside the gyroscope's time",
        "inside a hole of the gyroscope",
    }
    assert report.notes == []
