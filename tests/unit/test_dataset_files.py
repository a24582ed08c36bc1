"""Files of a data set in a folder, an archive or alone: found at any depth, bounded, never extracted."""

import os
import zipfile
from pathlib import Path

import pytest

from stream_occ.datasets import _files, open_dataset
from stream_occ.datasets._files import FileTree, UnreadableFileError
from stream_occ.errors import DataError

HEADER = "t_ms,acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads\n"
ROWS = "0,0,0,9.8,0,0,0\n20,0,0,9.7,0,0,0\n"


def write_zip(path: Path, members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_folder_and_archive_give_the_same_names_and_bytes(tmp_path: Path) -> None:
    """Files are found at any depth and named relative to the root, whichever way the set came."""
    members: dict[str, str | bytes] = {"a.csv": "1", "deep/er/b.csv": "2", "deep/c.txt": "3"}
    folder = tmp_path / "set"
    with zipfile.ZipFile(write_zip(tmp_path / "set.zip", members)) as archive:
        archive.extractall(folder)
    in_folder, in_zip = FileTree(folder), FileTree(tmp_path / "set.zip")
    assert in_folder.names == in_zip.names == ("a.csv", "deep/c.txt", "deep/er/b.csv")
    assert [in_folder.read(name) for name in in_folder.names] == [in_zip.read(name) for name in in_zip.names]
    in_zip.close()


def test_hidden_files_and_archiver_leftovers_are_no_data(tmp_path: Path) -> None:
    """macOS adds ._ twins of every file to an archive: they are not read as recordings."""
    path = write_zip(tmp_path / "a.zip", {"a.csv": "1", "__MACOSX/a.csv": "x", "._a.csv": "x", ".git/b.csv": "x"})
    assert FileTree(path).names == ("a.csv",)


@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil.csv", "a/../../evil.csv", "..\\evil.csv", "C:/evil.csv"])
def test_names_that_leave_the_archive_are_passed_over_and_named(tmp_path: Path, name: str) -> None:
    """A member named outside the archive is not data and is told of; nothing is written anywhere."""
    path = write_zip(tmp_path / "a.zip", {name: HEADER + ROWS, "good.csv": HEADER + ROWS})
    before = sorted(tmp_path.parent.rglob("*"))
    with open_dataset("csv", path) as dataset:
        assert [recording.trial for recording in dataset.iter_recordings()] == ["good"]
        assert dataset.report.notes == [f"{name}: name points outside the archive, passed over"]
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_missing_path_is_one_line(tmp_path: Path) -> None:
    """The path is named, in one line."""
    with pytest.raises(DataError, match=r"nowhere: must be a folder or a zip archive; got no such path\. ") as caught:
        FileTree(tmp_path / "nowhere")
    assert "\n" not in str(caught.value)


def test_file_that_is_no_archive_is_one_line(tmp_path: Path) -> None:
    """A file that is neither archive nor recording is refused by a set that consists of many files."""
    (tmp_path / "a.tar").write_text("no zip")
    with pytest.raises(DataError, match=r"a\.tar: must be a folder or a zip archive; got another kind of file"):
        FileTree(tmp_path / "a.tar")


def test_damaged_archive_is_one_line(tmp_path: Path) -> None:
    """A truncated download says so."""
    whole = write_zip(tmp_path / "whole.zip", {"a.csv": HEADER + ROWS}).read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"half\.zip: must be a readable zip archive; got .* Download it again\."):
        FileTree(tmp_path / "half.zip")


def test_absurd_member_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb, 5 MB of zeros in 5 kB, is not unpacked: it is named, and the other files are read."""
    monkeypatch.setattr(_files, "MAX_FILE_BYTES", 100_000)
    path = write_zip(tmp_path / "a.zip", {"bomb.csv": HEADER.encode() + b"0" * 5_000_000, "good.csv": HEADER + ROWS})
    assert path.stat().st_size < 10_000
    with open_dataset("csv", path) as dataset:
        assert [recording.trial for recording in dataset.iter_recordings()] == ["good"]
        assert len(dataset.report.notes) == 1
        assert "bomb.csv: must be at most 100000 bytes; got 5000068" in dataset.report.notes[0]


def test_absurd_totals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that would unpack to more than the bound, or with more files, is refused before anything is read."""
    path = write_zip(tmp_path / "a.zip", {f"{i}.csv": "x" * 100 for i in range(10)})
    monkeypatch.setattr(_files, "MAX_TOTAL_BYTES", 999)
    with pytest.raises(DataError, match="must unpack to at most 999 bytes; got 1000"):
        FileTree(path)
    monkeypatch.setattr(_files, "MAX_TOTAL_BYTES", 1000)
    monkeypatch.setattr(_files, "MAX_FILES", 9)
    with pytest.raises(DataError, match="must hold at most 9 files; got 10"):
        FileTree(path)


def test_flipped_byte_in_a_member_costs_itself_alone(tmp_path: Path) -> None:
    """A member whose checksum fails is named and passed over."""
    path = write_zip(tmp_path / "a.zip", {"bad.csv": HEADER + ROWS * 200 + "77777", "good.csv": HEADER + ROWS}, 0)
    path.write_bytes(path.read_bytes().replace(b"77777", b"77778", 1))
    with open_dataset("csv", path) as dataset:
        assert [recording.trial for recording in dataset.iter_recordings()] == ["good"]
        assert "bad.csv" in dataset.report.notes[0]
        assert "CRC" in dataset.report.notes[0]


def test_encrypted_member_is_unreadable_not_a_crash(tmp_path: Path) -> None:
    """The flag of encryption set on a member: one line, no password prompt."""
    path = write_zip(tmp_path / "a.zip", {"a.csv": HEADER + ROWS}, 0)
    raw = bytearray(path.read_bytes())
    raw[6] |= 1  # general purpose flag of the local header
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # and of the central directory
    path.write_bytes(bytes(raw))
    with pytest.raises(UnreadableFileError, match="encrypted"):
        FileTree(path).read("a.csv")


def test_head_of_a_large_file_reads_its_first_bytes(tmp_path: Path) -> None:
    """Sniffing a file costs its first bytes only."""
    path = write_zip(tmp_path / "a.zip", {"a.csv": "abcdef" * 1000})
    assert FileTree(path).head("a.csv", 4) == b"abcd"


def test_linked_folder_is_followed_once(tmp_path: Path) -> None:
    """A link to a folder elsewhere is part of the set; a link to the folder itself does not loop."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.csv").write_text("2")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.csv").write_text("1")
    (folder / "loop").symlink_to(folder)
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    (folder / "dangling.csv").symlink_to(tmp_path / "nowhere")
    assert FileTree(folder).names == ("a.csv", "more/b.csv")


def test_pipe_in_a_folder_is_not_opened(tmp_path: Path) -> None:
    """Only regular files are data: a named pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "a.csv").write_text("1")
    assert FileTree(tmp_path).names == ("a.csv",)


def test_pipe_or_device_as_the_data_is_refused_without_being_read(tmp_path: Path) -> None:
    """A pipe would be waited for and an endless device read until memory is gone: only files and folders are opened."""
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), os.devnull):
        with pytest.raises(DataError, match=r"got a pipe, socket or device\. Save it to a file first\.$"):
            FileTree(path, allow_file=True)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "loop"])
def test_impossible_path_is_one_line(tmp_path: Path, name: str) -> None:
    """A name that is too long or holds NUL, and a link to itself, are told as a missing path is."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match=r": must be a folder or a zip archive; got .*Check --data\.$"):
        FileTree(tmp_path / name)
