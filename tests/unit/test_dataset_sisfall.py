"""SisFall: raw counts without stamps, two accelerometers, and the real sample counted independently."""

import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.samples import Recording

G_MS2 = 9.80665
ROW = "  256,-128,   0,  16384,0,-8192, 1024,-512,   0;"


def write_trial(folder: Path, name: str, rows: str = "\n".join([ROW] * 400)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(rows)
    return folder / name


def load(path: Path, variant: str | None = None) -> tuple[list[Recording], dict[str, int], list[str]]:
    with open_dataset("sisfall", path, variant=variant) as dataset:
        return list(dataset.iter_recordings()), dataset.report.by_reason(), dataset.report.notes


def test_counts_become_si_units_by_the_sensors_own_ranges(tmp_path: Path) -> None:
    """ADXL345 256 counts of 32 g / 2^13 are 1 g; ITG3200 16384 of 4000 deg/s / 2^16 are 1000 deg/s; MMA8451Q alike."""
    write_trial(tmp_path / "SA01", "D01_SA01_R01.txt")
    for variant in (None, "adxl345", "mma8451q"):
        (recording,), reasons, _ = load(tmp_path, variant)
        block = recording.block
        assert block.acc_ms2[0] == pytest.approx([G_MS2, -G_MS2 / 2, 0], abs=1e-12)
        assert block.gyr_rads[0] == pytest.approx([math.radians(1000), 0, -math.radians(500)], abs=1e-12)
        assert block.t_ns.tolist() == [5_000_000 * i for i in range(400)]
        assert reasons == {}
    assert (recording.placement, recording.fall_interval_ns) == ("waist", None)


def test_variant_picks_the_accelerometer(tmp_path: Path) -> None:
    """Columns 1 to 3 by default, 7 to 9 as mma8451q, at the same stamps."""
    write_trial(tmp_path, "D01_SA01_R01.txt", "256,0,0,0,0,0,0,0,2048;\n")
    assert [load(tmp_path, v)[0][0].block.acc_ms2[0].tolist() for v in ("adxl345", "mma8451q")] == [
        [G_MS2, 0.0, 0.0],
        [0.0, 0.0, 2 * G_MS2],
    ]


def test_refused_row_keeps_its_place_in_time(tmp_path: Path) -> None:
    """Rows cut short, of text or beyond the sensor's range leave a hole of 5 ms each: what follows does not move up."""
    bad = ["1,2,3;", ROW.replace("256", "2.5"), ROW.replace("256", "4097"), ROW.replace("1024", "8193")]
    write_trial(tmp_path, "F01_SA01_R01.txt", "\n".join([ROW, *bad, "", ROW]))
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.t_ns.tolist() == [0, 25_000_000]
    assert reasons == {"wrong number of fields": 1, "not a number": 1, "impossible value": 2}


def test_names_say_person_activity_and_fall(tmp_path: Path) -> None:
    """F are falls whatever the folder is called; other files of the set are no trials; a copy is a note."""
    for folder, name in (("x", "F15_SE06_R02.txt"), ("x", "D19_SA10_R05.txt"), ("x", "D02_SA02_R01.txt")):
        write_trial(tmp_path / folder, name)
    for name in ("Readme.txt", "D20_SA01_R01.txt", "F16_SA01_R01.txt", "D00_SA01_R01.txt"):
        write_trial(tmp_path / "x", name)
    write_trial(tmp_path / "y", "F15_SE06_R02.txt")
    recordings, _, notes = load(tmp_path)
    assert [(r.subject, r.activity, r.trial, r.is_fall) for r in recordings] == [
        ("SA02", "D02", "R01", False),
        ("SA10", "D19", "R05", False),
        ("SE06", "F15", "R02", True),
    ]
    assert notes == ["y/F15_SE06_R02.txt: a second file of the same trial, passed over; x/F15_SE06_R02.txt is used"]


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "first", "per_g"), [("adxl345", 0, 256), ("mma8451q", 6, 1024)])
def test_real_sample_equals_its_files(shared_data: Path, variant: str, first: int, per_g: int) -> None:
    """180 falls and 251 activities of 4 people; every value by splitting text; |a| of standing people is near 1 g."""
    path = shared_data / "sisfall-sample.zip"
    people: dict[str, list[int]] = {}
    medians = []
    n_rows = 0
    with zipfile.ZipFile(path) as archive, open_dataset("sisfall", path, variant=variant) as dataset:
        for r in dataset.iter_recordings():
            people.setdefault(r.subject, [0, 0])[r.is_fall] += 1
            name = f"SisFall_dataset/{r.subject}/{r.activity}_{r.subject}_{r.trial}.txt"
            raw = np.array(archive.read(name).decode().replace(";", ",").replace("\n", "").split(",")[:-1], dtype=int)
            raw = raw.reshape(-1, 9)
            n_rows += len(raw)
            assert np.abs(r.block.acc_ms2 - raw[:, first : first + 3] / per_g * G_MS2).max() < 1e-9
            assert np.abs(r.block.gyr_rads - np.radians(raw[:, 3:6] / 16.384)).max() < 1e-9
            assert r.block.t_ns[-1] == (len(raw) - 1) * 5_000_000
            medians.append(np.median(np.linalg.norm(r.block.acc_ms2, axis=1)))
    assert people == {"SA01": [79, 75], "SA02": [79, 75], "SE01": [59, 0], "SE06": [34, 30]}
    assert (dataset.report.n_samples, dataset.report.n_refused, dataset.report.notes) == (n_rows, 0, [])
    assert n_rows == 1_600_810
    assert np.median(medians) == pytest.approx(9.8, abs=0.2)
