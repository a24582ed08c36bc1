"""What every data set keeps to, whoever wrote its loader: found by name, typed, deterministic, one line on trouble."""

import hashlib
import zipfile
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stream_occ.datasets
from stream_occ.datasets import Dataset, LoadReport, dataset_names, open_dataset
from stream_occ.errors import DataError
from stream_occ.samples import Placement, Recording

TABLES = {"table"}  # feature vectors, not recordings: opened by load_table
RECORDINGS = [name for name in dataset_names() if name not in TABLES]
PUBLISHED = [name for name in RECORDINGS if name not in {"csv", "recording"}]  # those two are users' own files

# files of one trial with content of any kind, by data set; a set without an entry is not fuzzed
FILES = {
    "csv": ["a.csv"],
    "fallalld": ["S01_D3_A101_T01_A.dat", "S01_D3_A101_T01_G.dat"],
    "mobifall": ["FOL_acc_2_1.txt", "FOL_gyro_2_1.txt"],
    "recording": ["dev.csv"],
    "sisfall": ["F01_SA01_R01.txt"],
    "smartfallmm": ["young/accelerometer/watch/S29A10T01.csv", "young/gyroscope/watch/S29A10T01.csv"],
    "sp-sw-har": ["s01_01_sw.csv"],
    "umafall": ["UMAFall_Subject_01_ADL_Walking_1_2017-04-14_23-25-52.csv"],
    "weda-fall": ["50Hz/F01/U01_R01_accel.csv", "50Hz/F01/U01_R01_gyro.csv", "fall_timestamps.csv"],
}
BEGINNINGS = {
    "csv": b"t_ms,acc_x_g,acc_y_g,acc_z_g,gyr_x_dps,gyr_y_dps,gyr_z_dps\n",
    "mobifall": b"@DATA\n",
    "recording": b'{"format": "stream-occ-recording"',
    "smartfallmm": b"2022-08-04 11:24:02.384,0,9.8,0\n",
    "umafall": b"%C4:BE:84:71:A5:02; 2; WAIST; SensorTag\n1;0;0.1;0.9;0.1;0;2\n2;1;0.1;0.9;0.1;1;2\n",
}

NEW_DATA_SET = """
import numpy as np
from stream_occ.datasets import Trial
from stream_occ.samples import Recording, SampleBlock

VARIANTS = ()
LAYOUT = "<person>.toy"
ALLOW_FILE = False

def find(tree, variant, report):
    return [Trial(name[:-4], "walk", "1", {"all": name}) for name in tree.names if name.endswith(".toy")]

def load(tree, trial, report):
    t, z = tree.read(trial.files["all"]).split(b",")
    t_ns, acc = np.array([int(float(t) * 1e9)]), np.array([[0.0, 0.0, float(z)]])
    block = SampleBlock(trial.subject, t_ns, acc, np.zeros((1, 3)))
    yield Recording("toy-set", trial.subject, trial.activity, trial.trial, False, None, "wrist", block)
"""


def archive_of(name: str, shared_data: Path) -> Path:
    for path in (shared_data / f"{name}.zip", shared_data / f"{name}-sample.zip"):
        if path.exists():
            return path
    pytest.skip(f"no recorded archive of {name}")


def digest(recording: Recording) -> str:
    block = recording.block
    facts = (recording.name, recording.is_fall, recording.fall_interval_ns, recording.placement, block.device_id)
    raw = block.t_ns.tobytes() + block.acc_ms2.tobytes() + block.gyr_rads.tobytes()
    return hashlib.sha256(repr(facts).encode() + raw).hexdigest()


def digests(dataset: Dataset, n: int | None = None) -> list[str]:
    return [digest(recording) for recording in islice(dataset.iter_recordings(), n)]


def test_the_sets_of_this_package_are_found_by_their_files() -> None:
    """No list is kept anywhere: a file in the package is a data set."""
    assert {"csv", "mobifall", "recording", "sisfall", "table", "weda-fall"} <= set(dataset_names())


def test_new_data_set_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with VARIANTS, LAYOUT, ALLOW_FILE, find and load is found by its name; nothing else is touched."""
    (tmp_path / "toy_set.py").write_text(NEW_DATA_SET)
    (tmp_path / "one.toy").write_text("0.0, 9.8")
    monkeypatch.setattr(stream_occ.datasets, "__path__", [*stream_occ.datasets.__path__, str(tmp_path)])
    assert "toy-set" in dataset_names()
    with open_dataset("toy-set", tmp_path) as dataset:
        (recording,) = dataset.iter_recordings()
    assert (recording.name, recording.block.acc_ms2.tolist()) == ("toy-set/one/walk/1", [[0.0, 0.0, 9.8]])


@pytest.mark.parametrize(("given_", "near"), [("mobyfall", "mobifall"), ("weda", "weda-fall"), ("sp-sw", "sp-sw-har")])
def test_unknown_name_gets_the_nearest_one(given_: str, near: str, tmp_path: Path) -> None:
    """A typing error is answered with the name that was meant and with all names."""
    with pytest.raises(DataError, match=rf"got '{given_}'\. Did you mean {near}\?$") as caught:
        open_dataset(given_, tmp_path)
    assert all(name in str(caught.value) for name in dataset_names())


@pytest.mark.parametrize("name", ["", "_files", "../csv", "os", "csv.os", "unknown"])
def test_what_is_no_data_set_is_never_imported(name: str, tmp_path: Path) -> None:
    """Helpers of the package, paths and other modules are no data sets."""
    with pytest.raises(DataError, match="dataset: must be one of csv, "):
        open_dataset(name, tmp_path)


@pytest.mark.parametrize("name", dataset_names())
def test_place_without_the_sets_files_is_one_line(name: str, tmp_path: Path) -> None:
    """A missing path, an empty folder, other or broken archives: a DataError of one line each, exit code 2."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.md", "nothing here")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 cut off")
    for path in (tmp_path / "missing", folder, tmp_path / "other.zip", tmp_path / "broken.zip"):
        with pytest.raises(DataError) as caught:
            open_dataset(name, path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name in FILES])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.lists(st.binary(max_size=200), min_size=3, max_size=3), begun=st.booleans())
def test_files_of_any_content_give_recordings_notes_or_one_line(
    name: str, tmp_path: Path, content: list[bytes], begun: bool
) -> None:
    """Whatever stands in the files, a load ends with finite samples, with counts and notes, or with a DataError."""
    for file, data in zip(FILES[name], content, strict=False):
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((BEGINNINGS.get(name, b"names\n") if begun else b"") + data)
    try:
        with open_dataset(name, tmp_path / name) as dataset:
            recordings = list(dataset.iter_recordings())
    except DataError:
        return  # anything else would fail the test
    assert all(len(recording.block) for recording in recordings)
    assert all(np.isfinite(recording.block.acc_ms2).all() for recording in recordings)
    assert all(np.isfinite(recording.block.gyr_rads).all() for recording in recordings)
    assert recordings or dataset.report.notes


@pytest.mark.parametrize("name", PUBLISHED)
def test_recordings_keep_the_types_and_units_of_samples(name: str, shared_data: Path) -> None:
    """int64 stamps, float64 (n, 3) values, all finite, SI with gravity; the reported counts are those of what came."""
    with open_dataset(name, archive_of(name, shared_data)) as dataset:
        assert dataset.report.n_recordings == 0
        recordings = list(islice(dataset.iter_recordings(), 25))
        assert dataset.n_files >= len(recordings)
    for r in recordings:
        n = len(r.block)
        assert (r.block.t_ns.dtype, r.block.acc_ms2.dtype, r.block.gyr_rads.dtype) == ("int64", "float64", "float64")
        assert r.block.t_ns.shape == (n,)
        assert r.block.acc_ms2.shape == r.block.gyr_rads.shape == (n, 3)
        assert np.isfinite(r.block.acc_ms2).all()
        assert np.isfinite(r.block.gyr_rads).all()
        assert 5 < np.linalg.norm(r.block.acc_ms2, axis=1).mean() < 20  # m/s2, gravity included
        assert np.abs(r.block.gyr_rads).max() < 40  # rad/s: 2000 deg/s is 35
        assert r.dataset == name
        assert r.placement in get_args(Placement)
        assert r.fall_interval_ns is None or (r.is_fall and r.fall_interval_ns[0] < r.fall_interval_ns[1])
    assert len({r.name for r in recordings}) == len(recordings)
    assert dataset.report.n_samples == sum(len(r.block) for r in recordings)


@pytest.mark.parametrize("name", PUBLISHED)
def test_second_pass_is_the_first_one_again(name: str, shared_data: Path) -> None:
    """Order and values are the same in every pass, and a pass starts its report over."""
    with open_dataset(name, archive_of(name, shared_data)) as dataset:
        first = digests(dataset, 5)
        lines = dataset.report.lines()
        assert digests(dataset, 5) == first
        assert dataset.report.lines() == lines


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_unpacked_folder_equals_the_archive(name: str, shared_data: Path, tmp_path: Path) -> None:
    """Every recording of the set is bit for bit the same from the archive and from the folder it unpacks to."""
    path = archive_of(name, shared_data)
    reports: list[LoadReport] = []
    found = []
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    for place in (path, tmp_path):
        with open_dataset(name, place) as dataset:
            found.append(digests(dataset))
            reports.append(dataset.report)
    assert len(found[0]) == reports[0].n_recordings > 0
    assert found[0] == found[1]
    assert reports[0] == reports[1]
