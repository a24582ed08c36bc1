"""The whole of four published sets as far as its layout is known: every recording is read, from a folder or an archive.

Counts are the published ones: SisFall 1,798 falls in 4,505 files (2,707 activities by its files, 2,706 by its paper),
UMAFall 208 in 746, FallAllD 26,420 files of four sensors. The sets themselves are not at hand: docs/datasets.md says
what this leaves open.
"""

import math
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import _files, open_dataset
from stream_occ.datasets._report import LoadReport
from stream_occ.errors import DataError
from stream_occ.samples import Recording
from tests import published_sets as published

G_MS2 = 9.80665
RAD = math.radians(1)


def load(dataset: str, path: Path, variant: str | None = None) -> tuple[list[Recording], LoadReport]:
    with open_dataset(dataset, path, variant=variant) as opened:
        return list(opened.iter_recordings()), opened.report


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def keys(recordings: list[Recording]) -> dict[tuple[str, str, str], bool]:
    return {(r.subject, r.activity, r.trial): r.is_fall for r in recordings}


def falls(made: published.Published) -> dict[tuple[str, str, str], bool]:
    return {trial: is_fall for trial, (_, is_fall) in made.trials.items()}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "zip", "zip in zip"])
def test_whole_sisfall_is_read(tmp_path: Path, form: str) -> None:
    """38 people, 1,798 falls, 2,707 activities; what else lies between the files is no damage."""
    made = published.sisfall()
    if form == "folder":
        path = published.unpack(made.files, tmp_path)
    else:
        inner = published.zipped(made.files)
        data = inner if form == "zip" else published.zipped({"SisFall_dataset.zip": inner, "Paper.pdf": b"%PDF"})
        path = write(tmp_path / "SisFall.zip", data)
    recordings, report = load("sisfall", path)
    assert Counter(r.is_fall for r in recordings) == {False: 2707, True: 1798}
    assert len({r.subject for r in recordings}) == 38
    assert {r.subject for r in recordings if r.is_fall} == {*(f"SA{i:02}" for i in range(1, 24)), "SE06"}
    assert keys(recordings) == falls(made)
    for r in recordings:
        n, _ = made.trials[r.subject, r.activity, r.trial]
        assert r.block.acc_ms2[0].tolist() == pytest.approx([n % 4096 / 256 * G_MS2, -G_MS2, 0])
        assert r.block.gyr_rads[0].tolist() == pytest.approx([1000 * RAD, 0, -500 * RAD])
        assert r.block.t_ns[-1] == 11 * 5_000_000
    assert (report.n_refused, report.notes) == (0, [])


def test_damaged_file_of_sisfall_is_one_line_and_no_end(tmp_path: Path) -> None:
    """An empty file, one cut off in a row, one of another form; names in other letters are read."""
    files = {name: data for name, data in published.sisfall().files.items() if "/SE15/" in name}
    files["SisFall_dataset/SE15/D01_SE15_R01.txt"] = b""
    whole = files["SisFall_dataset/SE15/D02_SE15_R01.txt"]
    files["SisFall_dataset/SE15/D02_SE15_R01.txt"] = whole.rstrip()[:-12]
    files["SisFall_dataset/SE15/D03_SE15_R01.txt"] = b"<html>404</html>\n"
    files["SISFALL_DATASET/SE15/d05_se15_r01.TXT"] = files.pop("SisFall_dataset/SE15/D05_SE15_R01.txt")
    recordings, report = load("sisfall", published.unpack(files, tmp_path))
    assert len(files) == 58
    assert len(recordings) == 56
    assert report.by_reason() == {"wrong number of fields": 2}
    assert report.notes == [
        f"SisFall_dataset/SE15/{name}_SE15_R01.txt: no usable row, passed over" for name in ("D01", "D03")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "zip", "corrected beside the first", "all in one"])
def test_whole_umafall_is_read(tmp_path: Path, form: str) -> None:
    """19 people, 208 falls, 538 activities, at each place; of two versions the corrected one, told in one line."""
    made = published.umafall()
    inside = {f"UMAFall_Dataset/{name}": data for name, data in made.files.items()}
    if form == "folder":
        path = published.unpack(inside, tmp_path)
    elif form == "zip":
        path = write(tmp_path / "UMAFall_Dataset.zip", published.zipped(inside))
    else:
        first = {f"UMAFall_Dataset/{name}": data for name, data in published.umafall(start_g=5.0).files.items()}
        if form == "all in one":
            archives = {
                "UMAFall_Dataset.zip": published.zipped(first),
                "videos_ADL.zip": published.zipped({"a.mp4": b"0"}),
            }
            archives["UMAFall_Dataset_corrected_version.zip"] = published.zipped(made.files)
            path = write(tmp_path / "4214283.zip", published.zipped(archives))
        else:
            corrected = {f"UMAFall_Dataset_corrected_version/{name}": data for name, data in made.files.items()}
            path = published.unpack(first | corrected, tmp_path)
    for variant, more_g in (("waist", 0), ("wrist", 3), ("chest", 1), ("ankle", 4)):
        recordings, report = load("umafall", path, variant)
        assert Counter(r.is_fall for r in recordings) == {False: 538, True: 208}
        assert len({r.subject for r in recordings}) == 19
        assert keys(recordings) == falls(made)
        for r in recordings:
            n, _ = made.trials[r.subject, r.activity, r.trial]
            assert r.block.acc_ms2[-1].tolist() == pytest.approx([(n / 1000 + more_g) * G_MS2, -G_MS2 / 2, G_MS2 / 4])
            assert r.block.gyr_rads[0].tolist() == pytest.approx([90 * RAD, 0, -45 * RAD])
            assert np.diff(r.block.t_ns).tolist() == [50_000_000] * 10
        # the gyroscope's first row is 2 ms after the accelerometer's
        assert report.by_reason() == {"outside the gyroscope's time": 746}
        told = ["746 files: passed over; those of the corrected version are used"]
        assert report.notes == (told if form in ("corrected beside the first", "all in one") else [])


def test_damaged_file_of_umafall_is_one_line_and_no_end(tmp_path: Path) -> None:
    """A sensor that is not in the header or sent nothing, a header that comes twice, a name without its date."""
    names = [f"UMAFall_Subject_01_ADL_Walking_{i}_2016-06-13_20-28-3{i}.csv" for i in range(1, 5)]
    whole = published.umafall_file(0.5)
    files = {
        names[0]: whole.replace(b"WAIST", b"THIGH"),
        names[1]: b"\n".join(row for row in whole.splitlines() if not row.endswith(b";2")),
        names[2]: whole + whole[: whole.index(b"\n0;0;")] + b"\n",
        names[3]: b"",
        "UMAFall_Subject_18_Fall_forwardFall_1_20160529_213758.csv": whole,
    }
    recordings, report = load("umafall", published.unpack(files, tmp_path))
    assert [r.trial for r in recordings] == ["3_2016-06-13_20-28-33"]
    assert report.by_reason() == {"outside the gyroscope's time": 1}
    assert report.notes == [
        "UMAFall_Subject_18_Fall_forwardFall_1_20160529_213758.csv: "
        "name says no person, kind, activity, trial and date, passed over",
        f"{names[0]}: no sensor at the waist in its header, passed over",
        f"{names[1]}: no row of the waist's accelerometer and no row of the waist's gyroscope, passed over",
        f"{names[3]}: no sensor at the waist in its header, passed over",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_whole_fallalld_is_read(tmp_path: Path, form: str) -> None:
    """26,420 files of 15 people: 6,605 recordings of three devices; magnetometer, barometer and scripts are left."""
    made = published.fallalld()
    assert sum(name.endswith(".dat") for name in made.files) == 26_420
    if form == "folder":
        path = published.unpack(made.files, tmp_path)
    else:
        path = write(tmp_path / "FallAllD.zip", published.zipped(made.files))
    counts = {}
    for variant, device in (("neck", "D1"), ("wrist", "D2"), ("waist", "D3")):
        recordings, report = load("fallalld", path, variant)
        counts[variant] = Counter(r.is_fall for r in recordings)
        expected = {(s, a, t[3:]): fall for (s, a, t), fall in falls(made).items() if t.startswith(device)}
        assert keys(recordings) == expected
        assert len({r.subject for r in recordings}) == 15
        for r in recordings:
            n, _ = made.trials[r.subject, r.activity, f"{device} {r.trial}"]
            assert r.block.acc_ms2[0].tolist() == pytest.approx(np.array([n, -2000, 4000]) * 0.000244 * G_MS2)
            assert r.block.gyr_rads[0].tolist() == pytest.approx([7 * RAD, 0, -70 * RAD])
            assert r.block.t_ns[-1] == pytest.approx(11 / 238 * 1e9, abs=1)
        assert (report.n_refused, report.notes) == (0, [])
    # 79 activities of 15 people once, and those of the first 3,050 of 3,555 twice
    assert counts["neck"] == counts["wrist"] == {False: 1232, True: 980}
    assert counts["waist"] == {False: 1232, True: 949}


def test_damaged_file_of_fallalld_is_one_line_and_no_end(tmp_path: Path) -> None:
    """A gyroscope that is not there or empty, an accelerometer cut off in a row; a pickle is never opened."""
    files = dict(published.fallalld(1, 237).files)
    del files["FallAllD/S01_D3_A001_T01_G.dat"]
    files["FallAllD/S01_D3_A002_T01_G.dat"] = b""
    files["FallAllD/S01_D3_A003_T01_A.dat"] = files["FallAllD/S01_D3_A003_T01_A.dat"][:-6]
    del files["FallAllD/S01_D3_A004_T01_M.dat"]
    files["FallAllD.pkl"] = b"cos\nabort\n(tR."
    recordings, report = load("fallalld", published.unpack(files, tmp_path))
    assert len(recordings) == 77
    assert report.by_reason() == {"outside the gyroscope's time": 12, "wrong number of fields": 1}
    assert report.notes == [
        "FallAllD.pkl: made of the set's files, and a pickle can run code: give those files, passed over",
        "FallAllD/S01_D3_A001_T01_A.dat: no gyroscope file of the same trial, passed over",
        "FallAllD/S01_D3_A002_T01_A.dat: no usable row, passed over",
    ]
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "FallAllD.pkl").write_bytes(files["FallAllD.pkl"])
    with pytest.raises(
        DataError, match=r"got 1 other files \(FallAllD\.pkl: made of the set's files.*\)\. Check --data"
    ):
        load("fallalld", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_whole_smartfallmm_is_read(tmp_path: Path, form: str) -> None:
    """40 people, 2,075 trials, 475 falls of the young, as watch and hip; other devices and skeletons are left."""
    made = published.smartfallmm()
    if form == "folder":
        path = published.unpack(made.files, tmp_path)
    else:
        inside = {f"SmartFallMM-Dataset-main/{name}": data for name, data in made.files.items()}
        path = write(tmp_path / "SmartFallMM-Dataset-main.zip", published.zipped(inside))
    for variant in ("watch", "hip"):
        recordings, report = load("smartfallmm", path, variant)
        assert Counter(r.is_fall for r in recordings) == {False: 1600, True: 475}
        assert len({r.subject for r in recordings}) == 40
        assert keys(recordings) == falls(made)
        for r in recordings:
            n, _ = made.trials[r.subject, r.activity, r.trial]
            acc = [n / 1000, 9.75, 0.5] if variant == "watch" else [n / 10_000 * G_MS2, G_MS2, 0]
            gyr = [0.5, -0.25, 1.0] if variant == "watch" else [90 * RAD, 0, -45 * RAD]
            assert r.block.acc_ms2[0].tolist() == pytest.approx(acc)
            assert r.block.gyr_rads[0].tolist() == pytest.approx(gyr)
            assert np.diff(r.block.t_ns) == pytest.approx(30e6 if variant == "watch" else 40e6)
        assert report.notes == []


def test_both_forms_of_the_hips_files_are_read(tmp_path: Path) -> None:
    """Of old people the gyroscope has four columns, of young ones six; folders may be written large."""
    made = published.smartfallmm(1, 1, 1)
    files = {name.title().replace(".Csv", ".csv"): data for name, data in made.files.items()}
    recordings, report = load("smartfallmm", published.unpack(files, tmp_path), "hip")
    assert keys(recordings) == falls(made)
    assert report.notes == []


def double(rows: list[str]) -> list[str]:
    """Each row twice, as messages that were sent again: pairs, or two rows and then both again, a ms later."""
    doubled = []
    for i in range(0, len(rows), 3):
        first, *both = rows[i : i + 3]
        doubled += [first, first, *both, *both]
    return [row.replace(",", "1,", 1) if k % 2 else row for k, row in enumerate(doubled)]


def test_messages_that_came_twice_count_once(tmp_path: Path) -> None:
    """The file of a watch that sent all twice is that of one that did not; the copies are counted."""
    name = "young/{}/watch/S29A01T01.csv"
    acc, gyr = published.watch_file(30, "0.5,9.75,0.5", 200), published.watch_file(20, "0.5,-0.25,1.0", 300)
    once = {name.format("accelerometer"): acc, name.format("gyroscope"): gyr}
    # each sample its own: the rest of a device that lies still is no copy
    once = {
        file: "\n".join(f"{row}{i}" for i, row in enumerate(data.decode().splitlines())).encode()
        for file, data in once.items()
    }
    twice = {file: "\n".join(double(data.decode().splitlines())).encode() for file, data in once.items()}
    (single,), _ = load("smartfallmm", published.unpack(once, tmp_path / "once"))
    (recording,), report = load("smartfallmm", published.unpack(twice, tmp_path / "twice"))
    assert recording.block.acc_ms2.tolist() == single.block.acc_ms2.tolist()
    assert np.abs(recording.block.t_ns - single.block.t_ns).max() <= 2_000_000
    reasons = report.by_reason()
    assert reasons["copy of a message"] + reasons["row seen before"] == 200 + 300


def test_row_written_again_and_again_counts_once(tmp_path: Path) -> None:
    """Some files are filled up with their last row: stamp and values are the same."""
    name = "old/{}/watch/S03A01T01.csv"
    acc, gyr = published.watch_file(30, "0.5,9.75,0.5"), published.watch_file(20, "0.5,-0.25,1.0", 80)
    files = {
        name.format("accelerometer"): acc + acc.splitlines(keepends=True)[-1] * 100,
        name.format("gyroscope"): gyr + gyr.splitlines(keepends=True)[-1] * 100,
    }
    (recording,), report = load("smartfallmm", published.unpack(files, tmp_path))
    assert len(recording.block) == 40
    assert report.by_reason() == {"row seen before": 200}
    assert report.notes == []


def test_damaged_file_of_smartfallmm_is_one_line_and_no_end(tmp_path: Path) -> None:
    """A partner lost, a file of names, stamps of six seconds of another year, a name of another form."""
    files = dict(published.smartfallmm(1, 0, 1).files)
    name = "young/{}/watch/S29{}.csv"
    del files[name.format("gyroscope", "A01T01")]
    files[name.format("gyroscope", "A02T01")] = b"time,x,y,z\n"
    files[name.format("gyroscope", "A03T01")] = b"".join(
        b"2025-11-07 10:4%d:%02d.000,0.5,0.25,%d.5\n" % (i // 10, i % 10 * 6, i) for i in range(30)
    )
    files[name.format("gyroscope", "walkst")] = b"1,2\n"
    recordings, report = load("smartfallmm", published.unpack(files, tmp_path))
    assert len(recordings) == 10
    # 13 rows of each recording come after its gyroscope's last, 780 ms; 40 of each trial without one
    assert report.by_reason() == {"unknown stamp": 1, "outside the gyroscope's time": 10 * 13 + 2 * 40}
    assert report.notes == [
        f"{name.format('gyroscope', 'walkst')}: name says no person, activity and trial, passed over",
        f"{name.format('accelerometer', 'A01T01')}: no gyroscope file of the same trial, passed over",
        f"{name.format('gyroscope', 'A02T01')}: no usable row, passed over",
        f"{name.format('accelerometer', 'A03T01')}: its gyroscope file is of another time, passed over",
    ]


def test_archive_in_an_archive_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken one and one too large for memory cost themselves alone; a third inside one is no data."""
    row = b"1,0,0,0,0,0,0,0,0;\n"
    good = {
        "D01_SA01_R01.txt": row,
        "deeper.zip": published.zipped({"D01_SA02_R01.txt": row}),
        "../D02_SA01_R01.txt": row,
    }
    outer = {"a.zip": published.zipped(good), "b.zip": b"PK\3\4 broken", "c.zip": b"PK" + b"\0" * 5000}
    path = write(tmp_path / "set.zip", published.zipped(outer))
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", 4000)
    recordings, report = load("sisfall", path)
    assert keys(recordings) == {("SA01", "D01", "R01"): False}
    assert [note for note in report.notes if "MACOSX" not in note] == [
        "a.zip/../D02_SA01_R01.txt: name points outside the archive, passed over",
        "b.zip: an archive that cannot be read: File is not a zip file, passed over",
        "c.zip: archives inside the archive are read up to 4000 bytes, unpack it, passed over",
    ]


def test_users_own_archives_are_not_read_for_the_archives_in_them(tmp_path: Path) -> None:
    """A backup beside one's recordings would count each of them twice."""
    text = b"t_ms,acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads\n0,0,0,9.8,0,0,0\n"
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", text)
        archive.writestr("backup.zip", published.zipped({"a.csv": text}))
    recordings, _ = load("csv", path)
    assert len(recordings) == 1


@pytest.mark.parametrize("name", ["SisFall_dataset.zip", "SisFall.7z", "SisFall.rar"])
def test_folder_of_an_archive_alone_says_what_to_do(tmp_path: Path, name: str) -> None:
    """The outer archive was unpacked and the inner one was not, or the set came in another form: one line."""
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(DataError, match=f"got 1 other files. Unpack {name}, or give its own path if it is a zip"):
        load("sisfall", tmp_path)
