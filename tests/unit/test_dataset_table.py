"""Tables of feature vectors: KEEL and CSV, labels last, constant columns left out and named."""

from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import load_table, open_dataset
from stream_occ.errors import DataError

KEEL = """@relation toy
@attribute A real [0, 1]
@attribute 'B' real[0,1]
@Attribute C integer [3, 3]
@attribute Class {positive, negative}
@inputs A, B, C
@outputs Class
@DATA
0.5, 0.25, 3, negative
0.5,0.25,3,negative
1.5, 0.5, 3, positive
"""

# counts of ../shared/data/README.md: rows, outliers, exact duplicates (None where it gives no number)
REAL = {
    "yeast6.dat": (1484, 35, None),
    "yeast5.dat": (1484, 44, None),
    "yeast4.dat": (1484, 51, None),
    "glass5.dat": (214, 9, None),
    "glass4.dat": (214, 13, None),
    "glass2.dat": (214, 17, None),
    "winequality-red-3_vs_5.dat": (691, 10, 104),
    "winequality-white-3-9_vs_5.dat": (1482, 25, 282),
    "winequality-red-8_vs_6-7.dat": (855, 18, 136),
    "breast-cancer-unsupervised-ad.csv": (367, 10, None),
}


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_keel_table_by_hand(tmp_path: Path) -> None:
    """Three rows, one outlier, one repeated row, one constant column that is left out by name."""
    table = load_table(write(tmp_path, "toy.dat", KEEL))
    assert table.X.tolist() == [[0.5, 0.25], [0.5, 0.25], [1.5, 0.5]]
    assert table.y.tolist() == [False, False, True]
    assert (table.name, table.feature_names, table.dropped, table.n_duplicates) == ("toy", ("A", "B"), ("C",), 1)
    assert table.report.notes == ["toy.dat: constant columns left out: C"]


@pytest.mark.parametrize("header", ["", "width,height,label\n"])
def test_csv_table_with_and_without_names(tmp_path: Path, header: str) -> None:
    """A first line that is no row of numbers names the columns; else they are x1, x2, ..."""
    table = load_table(write(tmp_path, "toy.csv", header + "1,2,n\n3,4,o\n"))
    assert table.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.y.tolist() == [False, True]
    assert table.feature_names == (("width", "height") if header else ("x1", "x2"))


def test_damaged_rows_are_refused_and_counted(tmp_path: Path) -> None:
    """KEEL marks missing values with '?': such a row is not used, nor one with an unknown label or too few fields."""
    rows = "?, 0.25, 3, negative\n0.1, 0.2, 3\n0.1, 0.2, 3, perhaps\nnan, 0.2, 3, positive\n"
    table = load_table(write(tmp_path, "toy.dat", KEEL + rows))
    assert len(table.X) == 3
    assert table.report.by_reason() == {
        "not a number": 1,
        "wrong number of fields": 1,
        "unknown label": 1,
        "not finite": 1,
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.dat", "@relation x\n1,2,negative\n", "must have an @data line"),
        ("a.dat", KEEL.replace("'B' real[0,1]", "Sex {M, F}"), "numbers in all features; got categories in Sex"),
        ("a.dat", KEEL.split("0.5")[0], "must hold rows of numbers with a label last; got 0 rows"),
        ("a.csv", "", "must hold rows of numbers with a label last; got an empty file"),
        ("a.csv", "1,2,3\n", "got 1 rows, none usable"),
    ],
)
def test_what_is_no_table_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Each kind of wrong file has its own line."""
    with pytest.raises(DataError) as caught:
        load_table(write(tmp_path, name, text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "1;2;0\n3;4;1\n"), ("b.csv", "0\n1\n"), ("c.dat", "@data\n1,positive\n")]
)
def test_table_without_features_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    """Semicolons between columns, or a label alone, leave no feature."""
    with pytest.raises(DataError, match="must have features before the label; got none"):
        load_table(write(tmp_path, name, text))


def test_folder_of_several_tables_is_ambiguous(tmp_path: Path) -> None:
    """One table in a folder is taken; of two, none is guessed."""
    write(tmp_path, "a.dat", KEEL)
    assert load_table(tmp_path).name == "a"
    write(tmp_path, "b.dat", KEEL)
    with pytest.raises(DataError, match=r"must be or hold one table \(\.dat or \.csv\); got a\.dat, b\.dat"):
        load_table(tmp_path)


def test_table_is_no_data_set_of_recordings(tmp_path: Path) -> None:
    """Feature vectors cannot be replayed: the line says what to use instead."""
    with pytest.raises(DataError, match="Read them with stream_occ"):
        open_dataset("table", write(tmp_path, "a.dat", KEEL))


@pytest.mark.parametrize("name", REAL)
def test_real_tables_have_their_published_counts(shared_data: Path, name: str) -> None:
    """Rows, outliers and duplicates as published; y and X in the order of the file; no row refused."""
    n_rows, n_outliers, n_duplicates = REAL[name]
    table = load_table(shared_data / "tables" / name)
    assert (len(table.X), int(table.y.sum())) == (n_rows, n_outliers)
    assert table.report.n_refused == 0
    lines = [
        line.replace(" ", "").replace('"', "")
        for line in (shared_data / "tables" / name).read_text().splitlines()
        if line and not line.startswith("@")
    ]
    labels = [line.rsplit(",", 1)[1] for line in lines]
    assert table.y.tolist() == [label in ("positive", "o") for label in labels]
    if n_duplicates is not None:
        assert table.n_duplicates == n_duplicates
        assert len(lines) - len(set(lines)) == n_duplicates
    first = [float(text) for text in lines[0].split(",")[:-1]]
    assert table.X[0].tolist() == first
    assert (np.ptp(table.X, axis=0) > 0).all()
