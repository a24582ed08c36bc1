"""FallAllD: raw counts without stamps, two files a trial, three places, and the real sample counted independently."""

import io
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from stream_occ.samples import Recording

G_MS2 = 9.80665


def write_trial(folder: Path, name: str, *, acc: str = "", gyr: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}_A.dat").write_text(acc or "1000,-2000,4000\n" * 476)
    (folder / f"{name}_G.dat").write_text(gyr or "100,0,-1000\n" * 476)


def load(path: Path, variant: str | None = None) -> tuple[list[Recording], dict[str, int], list[str]]:
    with open_dataset("fallalld", path, variant=variant) as dataset:
        return list(dataset.iter_recordings()), dataset.report.by_reason(), dataset.report.notes


def test_counts_become_si_units_at_238_hz(tmp_path: Path) -> None:
    """1000 counts are 0.244 g, 100 counts 7 deg/s; row 238 comes exactly one second after row 0."""
    write_trial(tmp_path, "S01_D3_A001_T01")
    (recording,), reasons, notes = load(tmp_path)
    block = recording.block
    assert block.acc_ms2[0] == pytest.approx([0.244 * G_MS2, -0.488 * G_MS2, 0.976 * G_MS2], abs=1e-12)
    assert block.gyr_rads[0] == pytest.approx([math.radians(7), 0, -math.radians(70)], abs=1e-12)
    assert block.t_ns[[0, 1, 238]].tolist() == [0, 4_201_681, 1_000_000_000]  # 1 / 238 s is 4.2016807 ms
    assert (len(block), reasons, notes) == (476, {}, [])


def test_variant_picks_the_place(tmp_path: Path) -> None:
    """D3 at the waist by default, D2 at the wrist, D1 at the neck; never two of them together."""
    for device in (1, 2, 3):
        write_trial(tmp_path, f"S01_D{device}_A001_T0{device}")
    assert [(r.trial, r.placement) for v in (None, "wrist", "neck") for r in load(tmp_path, v)[0]] == [
        ("T03", "waist"),
        ("T02", "wrist"),
        ("T01", "neck"),
    ]


def test_activity_number_says_fall(tmp_path: Path) -> None:
    """A101 to A135 are falls, numbers below 100 activities; any other is a note. Other sensors are left."""
    for code in ("001", "044", "101", "135", "136", "100"):
        write_trial(tmp_path / code, f"S02_D3_A{code}_T01")
    (tmp_path / "S02_D3_A001_T01_M.dat").write_text("1,2,3\n")
    (tmp_path / "S02_D3_A001_T01_B.dat").write_text("1\n")
    recordings, _, notes = load(tmp_path)
    assert [(r.activity, r.is_fall) for r in recordings] == [
        ("A001", False),
        ("A044", False),
        ("A101", True),
        ("A135", True),
    ]
    assert notes == [
        f"{code}/S02_D3_A{code}_T01_{sensor}.dat: activity code A{code} is not one of FallAllD's, passed over"
        for code in ("100", "136")
        for sensor in "AG"
    ]


def test_lost_file_is_named(tmp_path: Path) -> None:
    """An accelerometer without gyroscope costs that trial alone."""
    for trial in ("T01", "T02"):
        write_trial(tmp_path, f"S01_D3_A001_{trial}")
    (tmp_path / "S01_D3_A001_T01_G.dat").unlink()
    recordings, _, notes = load(tmp_path)
    assert [r.trial for r in recordings] == ["T02"]
    assert notes == ["S01_D3_A001_T01_A.dat: no gyroscope file of the same trial, passed over"]


def test_damaged_and_missing_rows_are_counted_and_nothing_moves(tmp_path: Path) -> None:
    """Row 1 refused leaves a hole; a gyroscope of three rows leaves the accelerometer's fourth row unused."""
    write_trial(tmp_path, "S01_D3_A001_T01", acc="1,2,3\n1,x,3\n1,2,3\n1,2,3\n", gyr="0,0,0\n0,0,40000\n0,0,100\n")
    (recording,), reasons, _ = load(tmp_path)
    assert recording.block.t_ns.tolist() == [0, 8_403_361]
    assert recording.block.gyr_rads[:, 2] == pytest.approx([0, math.radians(7)])
    assert reasons == {"not a number": 1, "impossible value": 1, "outside the gyroscope's time": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "device", "n_normal", "n_falls"), [("waist", 3, 88, 28), ("wrist", 2, 163, 73)])
def test_real_sample_equals_its_files(
    shared_data: Path, variant: str, device: int, n_normal: int, n_falls: int
) -> None:
    """Counts by `unzip -l | grep -c`; every value by numpy's own reader; 20 s each; |a| at rest is near 1 g."""
    path = shared_data / "fallalld-sample.zip"
    counts = [0, 0]
    medians = []
    with zipfile.ZipFile(path) as archive, open_dataset("fallalld", path, variant=variant) as dataset:
        for r in dataset.iter_recordings():
            counts[r.is_fall] += 1
            stem = f"FallAllD/{r.subject}_D{device}_{r.activity}_{r.trial}"
            acc, gyr = (np.loadtxt(io.BytesIO(archive.read(f"{stem}_{s}.dat")), delimiter=",") for s in "AG")
            assert len(acc) == len(gyr) == len(r.block) == 4760
            assert np.abs(r.block.acc_ms2 - acc * 0.000244 * G_MS2).max() < 1e-9
            assert np.abs(r.block.gyr_rads - np.radians(gyr * 0.07)).max() < 1e-9
            assert r.block.t_ns[-1] == pytest.approx(4759 / 238 * 1e9, abs=1)
            medians.append(np.median(np.linalg.norm(r.block.acc_ms2, axis=1)))
    assert counts == [n_normal, n_falls]
    assert (dataset.report.n_refused, dataset.report.notes) == (0, [])
    assert np.median(medians) == pytest.approx(9.8, abs=0.2)
