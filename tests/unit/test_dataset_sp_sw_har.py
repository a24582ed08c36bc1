"""sp-sw-har: one recording per execution and device, on the clock of the sensor rather than of the delivery."""

from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset

HEADER = "x_acc,y_acc,z_acc,x_gyro,y_gyro,z_gyro,timestamp,label\n"
START_MS = 1_657_533_977_813


def write_trial(folder: Path, name: str, *, label: str = "WALKING") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # delivered in pairs that share one stamp
    rows = "".join(f"{i}.0,9.8,0.0,0.1,0.2,0.3,{START_MS + 20 * (i // 2 + 1)},{label}\n" for i in range(300))
    (folder / name).write_text(HEADER + rows)


def test_doubled_stamps_are_spread_and_no_sample_is_lost(tmp_path: Path) -> None:
    """Two samples with one epoch ms were taken 10 ms apart: both stay, at their own instants near their stamps."""
    write_trial(tmp_path / "DATA" / "s01", "s01_01_sw.csv")
    with open_dataset("sp-sw-har", tmp_path) as dataset:
        (recording,) = dataset.iter_recordings()
    block = recording.block
    assert block.acc_ms2[:, 0].tolist() == [float(i) for i in range(300)]
    assert np.diff(block.t_ns) == pytest.approx(10_000_000, rel=1e-3)
    assert abs(int(block.t_ns[0]) - (START_MS + 20) * 1_000_000) < 20_000_000
    assert block.gyr_rads[0].tolist() == [0.1, 0.2, 0.3]


def test_devices_are_told_apart(tmp_path: Path) -> None:
    """sp is a phone, of which the set does not say where it is carried; sw a watch; a variant takes one alone."""
    for name in ("s01_02_sw.csv", "s01_02_sp.csv", "s01_10_sp.csv"):
        write_trial(tmp_path, name)
    with open_dataset("sp-sw-har", tmp_path) as dataset:
        recordings = list(dataset.iter_recordings())
    assert [(r.trial, r.placement) for r in recordings] == [
        ("02_sp", "unknown"),
        ("02_sw", "wrist"),
        ("10_sp", "unknown"),
    ]
    assert not any(r.is_fall for r in recordings)
    with open_dataset("sp-sw-har", tmp_path, variant="sw") as dataset:
        assert [r.trial for r in dataset.iter_recordings()] == ["02_sw"]


def test_row_with_an_unknown_label_is_refused(tmp_path: Path) -> None:
    """A label that is not the set's own is a sign of damage: the row is refused and counted, never relabelled."""
    write_trial(tmp_path, "s01_01_sw.csv")
    path = tmp_path / "s01_01_sw.csv"
    path.write_text(path.read_text().replace("WALKING", "FLYING", 1))
    with open_dataset("sp-sw-har", tmp_path) as dataset:
        (recording,) = dataset.iter_recordings()
    assert len(recording.block) == 299
    assert dataset.report.refused == {("s01_01_sw.csv", "unknown label"): 1}


@pytest.mark.slow
def test_whole_real_set_is_loaded_without_losing_a_row(shared_data: Path) -> None:
    """223 executions of 23 people by two devices; 521,766 rows by `cat DATA/*/*_s?.csv | grep -vc x_acc`."""
    rates: dict[str, list[float]] = {"unknown": [], "wrist": []}
    people = set()
    with open_dataset("sp-sw-har", shared_data / "sp-sw-har.zip") as dataset:
        for r in dataset.iter_recordings():
            people.add(r.subject)
            steps = np.diff(r.block.t_ns)
            assert steps.min() > 9e6
            assert steps.max() < 11e6
            rates[r.placement].append(1e9 / float(np.median(steps)))
    assert len(people) == 23
    assert [len(found) for found in rates.values()] == [223, 223]
    assert (dataset.report.n_samples, dataset.report.n_refused, dataset.report.notes) == (521_766, 0, [])
    # each device's own rate, the same in every file: the spread of a clock that was recovered
    assert (min(rates["unknown"]), max(rates["unknown"])) == pytest.approx((102.44, 102.44), abs=0.1)
    assert (min(rates["wrist"]), max(rates["wrist"])) == pytest.approx((104.28, 104.28), abs=0.1)
