"""What `record` writes is read back bit for bit, and a crash costs the last line alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_occ.datasets import LoadReport, open_dataset
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.errors import DataError
from stream_occ.samples import Recording, SampleBlock

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def blocks() -> st.SearchStrategy[SampleBlock]:
    def build(n: int) -> st.SearchStrategy[SampleBlock]:
        return st.builds(
            lambda t, acc, gyr: SampleBlock("dev", t, acc, gyr),
            arrays(np.int64, n, elements=st.integers(-(2**63), 2**63 - 1)),
            arrays(np.float64, (n, 3), elements=FINITE),
            arrays(np.float64, (n, 3), elements=FINITE),
        )

    return st.integers(1, 6).flatmap(build)


def block(*stamps: int) -> SampleBlock:
    n = len(stamps)
    return SampleBlock("dev", np.array(stamps), np.full((n, 3), 0.1), np.full((n, 3), -1e-3))


def load(path: Path) -> tuple[list[Recording], LoadReport]:
    with open_dataset("recording", path) as dataset:
        return list(dataset.iter_recordings()), dataset.report


def fresh(folder: Path) -> Path:
    path = folder / "dev.csv"
    path.unlink(missing_ok=True)
    return path


@SAME_FOLDER
@given(written=st.lists(blocks(), min_size=1, max_size=4))
def test_samples_read_back_bit_for_bit(tmp_path: Path, written: list[SampleBlock]) -> None:
    """Any finite float, minus zero and the smallest included, any stamp, doubled or backward, in the order given."""
    path = fresh(tmp_path)
    with RecordingWriter(path, "dev") as writer:
        for one in written:
            writer.append(one)
    (recording,), report = load(path)
    for field in ("t_ns", "acc_ms2", "gyr_rads"):
        expected = np.concatenate([getattr(one, field) for one in written])
        assert getattr(recording.block, field).tobytes() == expected.tobytes()
    assert writer.n_samples == report.n_samples == sum(len(one) for one in written)
    assert report.n_refused == 0


@SAME_FOLDER
@given(data=st.data(), one=blocks(), more=blocks())
def test_file_cut_anywhere_gives_its_whole_lines_and_can_be_continued(
    tmp_path: Path, data: st.DataObject, one: SampleBlock, more: SampleBlock
) -> None:
    """A crash within a write costs that line, before and after the file is continued; no number is shortened."""
    path = fresh(tmp_path)
    with RecordingWriter(path, "dev") as writer:
        writer.append(one)
    whole = path.read_bytes()
    header_end = whole.index(b"\n") + 1
    cut = data.draw(st.integers(header_end, len(whole)))
    path.write_bytes(whole[:cut])
    n_whole = whole[:cut].count(b"\n") - 1
    n_cut = int(not whole[:cut].endswith(b"\n"))
    recordings, report = load(path)
    assert sum(len(r.block) for r in recordings) == n_whole
    assert report.by_reason() == ({"cut off while written": 1} if n_cut else {})
    with RecordingWriter(path, "dev") as writer:
        writer.append(more)
    (recording,), report = load(path)
    expected = np.concatenate([one.acc_ms2[:n_whole], more.acc_ms2])
    assert recording.block.acc_ms2.tobytes() == expected.tobytes()
    assert report.n_refused == n_cut


@pytest.mark.parametrize("keep", [0, 1, 30, -1])
def test_file_cut_within_its_header_is_continued(tmp_path: Path, keep: int) -> None:
    """A crash right after the file was made leaves a part of the header: the writer completes it."""
    path = tmp_path / "dev.rec"
    RecordingWriter(path, "dev").close()
    path.write_bytes(path.read_bytes()[:keep])
    with RecordingWriter(path, "dev") as writer:
        writer.append(block(1, 2))
    (recording,), report = load(path)
    assert (len(recording.block), report.n_refused) == (2, 0)


def test_header_says_who_and_what(tmp_path: Path) -> None:
    """Flags of `record` become fields of the recording; names need not be ASCII, nor free of commas and line ends."""
    path = tmp_path / "night.txt"
    given_ = {"subject": "Zoë,\nB.", "activity": "sleep", "is_fall": True, "placement": "chest"}
    with RecordingWriter(path, "dev", **given_) as writer:  # type: ignore[arg-type]
        writer.append(block(1))
    (recording,), _ = load(path)
    assert (recording.dataset, recording.subject, recording.activity, recording.trial, recording.is_fall) == (
        "recording",
        "Zoë,\nB.",
        "sleep",
        "night",
        True,
    )
    assert (recording.placement, recording.block.device_id) == ("chest", "dev")


def test_defaults_are_a_normal_recording_of_the_device(tmp_path: Path) -> None:
    """Without flags the device stands for its wearer."""
    with RecordingWriter(tmp_path / "a", "dev") as writer:
        writer.append(block(1))
    (recording,), _ = load(tmp_path)
    assert (recording.subject, recording.activity, recording.is_fall) == ("dev", "unknown", False)


def test_samples_are_with_the_system_when_append_returns(tmp_path: Path) -> None:
    """Another process sees them at once: a killed recorder loses nothing that it took."""
    writer = RecordingWriter(tmp_path / "a", "dev")
    writer.append(block(1, 2, 3))
    assert (tmp_path / "a").read_bytes().count(b"\n") == 4
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.append(block(4))


def test_another_devices_block_or_file_is_refused(tmp_path: Path) -> None:
    """One file holds one device, activity and truth; nothing is mixed."""
    path = tmp_path / "a"
    with RecordingWriter(path, "dev") as writer, pytest.raises(ValueError, match="holds 'dev', not 'other'"):
        writer.append(SampleBlock("other", np.array([1]), np.zeros((1, 3)), np.zeros((1, 3))))
    before = path.read_bytes()
    for other in ({"device_id": "other"}, {"device_id": "dev", "is_fall": True}):
        with pytest.raises(DataError, match="must be this device's recording; got another device, activity or format"):
            RecordingWriter(path, **other)  # type: ignore[arg-type]
    assert path.read_bytes() == before


def test_foreign_file_is_never_written_to(tmp_path: Path) -> None:
    """Somebody's letter is not appended to."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann")
    with pytest.raises(DataError, match="must be this device's recording"):
        RecordingWriter(path, "dev")
    assert path.read_text() == "Dear Ann"


def test_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A folder that does not exist is told with its path."""
    with pytest.raises(DataError, match="nowhere/a: must be a file that can be written; got No such file or directory"):
        RecordingWriter(tmp_path / "nowhere" / "a", "dev")


def test_header_without_end_is_bounded(tmp_path: Path) -> None:
    """A name of a megabyte is refused before a byte is written."""
    with pytest.raises(DataError, match="must have a header of at most 4096 bytes"):
        RecordingWriter(tmp_path / "a", "dev", subject="x" * 10**6)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "must be of version 1; got version 2. Use the release that wrote it."),
        ({"device_id": 7}, "must hold device_id, subject, activity and is_fall"),
        ({"is_fall": "no"}, "must hold device_id, subject, activity and is_fall"),
        ({"placement": "hat"}, "must hold the placement, units and columns of its version"),
        ({"units": {}}, "must hold the placement, units and columns of its version"),
    ],
)
def test_header_that_is_not_understood_is_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A future or edited header is refused rather than half understood."""
    path = tmp_path / "a"
    with RecordingWriter(path, "dev") as writer:
        writer.append(block(1))
    header, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps(json.loads(header) | change) + "\n" + rest)
    with pytest.raises(DataError) as caught:
        load(path)
    assert f"a: first line: {message}" in str(caught.value)


def test_damaged_header_is_one_line(tmp_path: Path) -> None:
    """The first line lost its end."""
    path = tmp_path / "a"
    RecordingWriter(path, "dev").close()
    path.write_bytes(path.read_bytes()[:40] + b"\n1,2,3,4,5,6,7\n")
    with pytest.raises(DataError, match="must be the header of a recording; got damaged JSON"):
        load(path)


def test_other_files_in_the_folder_are_none_of_ours(tmp_path: Path) -> None:
    """Recordings are known by how they begin, not by how they are called."""
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").touch()
    for name, stamp in (("dev10.csv", 10), ("dev2.csv", 2)):
        with RecordingWriter(tmp_path / name, "dev") as writer:
            writer.append(block(stamp))
    recordings, _ = load(tmp_path)
    assert [r.trial for r in recordings] == ["dev2", "dev10"]


def test_recording_without_a_sample_is_a_note(tmp_path: Path) -> None:
    """The device never sent: named, no crash."""
    RecordingWriter(tmp_path / "a", "dev").close()
    recordings, report = load(tmp_path)
    assert (recordings, report.notes) == ([], ["a: no usable row, passed over"])
