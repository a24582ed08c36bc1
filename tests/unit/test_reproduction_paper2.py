"""The second paper's comparison: its problems, measures, selections and tests; figures by hand, runs on small sets."""

import json
import re
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from stream_occ.errors import DataError, UsageError
from stream_occ.reproduction import paper2
from stream_occ.reproduction.outlier_aided import fowlkes_mallows, select_with_outliers_for_reproduction_only
from stream_occ.reproduction.paper2_grid import GRIDS, METHODS, grid_of
from stream_occ.reproduction.paper2_report import compared
from stream_occ.reproduction.plot import critical_difference_plot, groups_within
from stream_occ.reproduction.target_sets import TABLES, TargetSet, bundled_sets, find_sets

FAST = ("KOC", "OCSVM")


class Radius(BaseEstimator):  # type: ignore[misc]
    """Rejects what lies farther than `radius` from 0; remembers what it was trained on."""

    def __init__(self, radius: float, seen: list[float]) -> None:
        self.radius = radius
        self.seen = seen

    def __sklearn_clone__(self) -> Self:
        return type(self)(self.radius, self.seen)

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        self.seen.extend(np.abs(np.asarray(X)).ravel().tolist())
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.abs(X[:, 0]) > self.radius, -1, 1)


def blobs(n_outliers: int = 20, *, far: float = 8.0) -> TargetSet:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 3)), rng.normal(size=(n_outliers, 3)) + far])
    return TargetSet("blobs", "a", X, np.arange(len(X)) >= 60)


def test_methods_are_four_proposals_under_two_thresholds_and_eleven_peers() -> None:
    """Names as the paper gives them; every candidate of both grids can be made and is in the order of complexity."""
    proposals = {"LMKOC-LE", "LMKOC-LLE", "GMKOC-LDA", "GMKOC-CDA"}
    peers = {"OCSVM", "SVDD", "KPCA", "KOC", "AEKOC"} | {"LKOC-LE", "LKOC-LLE"}
    peers |= {"GKOC-LDA", "GKOC-CDA", "GKOC-CV", "GKOC-SV"}
    assert set(METHODS) == {f"{name}({rule})" for name in proposals for rule in ("theta1", "theta2")} | peers
    for name, (make, axes) in METHODS.items():
        detector = make()
        assert set(axes) <= set(detector.get_params()), name
        if name.endswith(")"):
            assert detector.threshold == name[-7:-1]
    assert list(grid_of("GMKOC-CDA(theta2)", "small")) == ["n_layers", "C", "C_out", "lam", "n_clusters"]
    for grid in GRIDS.values():
        for axis, rising in (("n_layers", False), ("C", False), ("lam", True), ("n_clusters", False)):
            assert list(grid[axis]) == sorted(grid[axis], reverse=not rising)
    assert (GRIDS["full"]["C"], len(GRIDS["full"]["n_clusters"])) == ((8, 4, 2, 1, 0.5, 0.25, 0.125), 19)


def test_bundled_sets_take_each_class_in_turn() -> None:
    """3 + 3 + 2 + 10 problems, and the known class sizes of iris, wine and breast cancer."""
    problems, notes = find_sets(None)
    assert len(problems) == 18
    assert notes == [f"tables not found and left out: {', '.join(TABLES)}"]
    sizes = {(item.dataset, item.target): np.bincount(item.is_outlier).tolist() for item in problems}
    assert sizes["iris", "setosa"] == [50, 100]
    assert [sizes["wine", f"class_{i}"][0] for i in range(3)] == [59, 71, 48]
    assert sizes["breast_cancer", "malignant"] == [212, 357]
    assert sum(sizes["digits", str(i)][0] for i in range(10)) == 1797


def test_tables_are_problems_with_normal_rows_as_targets(tmp_path: Path) -> None:
    """A table of the first paper is found below the folder; an unknown name is refused."""
    (tmp_path / "deep").mkdir()
    lines = [f"{i}.0,{i * i}.0,{'positive' if i % 9 == 3 else 'negative'}" for i in range(45)]
    lines[0] = "nan,0.0,negative"
    header = "@attribute a real [0, 9]\n@attribute b real [0, 99]\n@attribute class {positive, negative}\n@data\n"
    (tmp_path / "deep" / "glass2.dat").write_text(header + "\n".join(lines), encoding="utf-8")
    (tmp_path / "glass4.dat").write_text(header + "\n".join(lines[:20]), encoding="utf-8")
    (problem,), notes = find_sets(tmp_path, ["glass2", "glass4", "yeast4"])
    assert (problem.dataset, problem.target) == ("glass2", "normal")
    assert np.flatnonzero(problem.is_outlier).tolist() == [2, 11, 20, 29, 38]
    assert notes == [
        "glass2: rows not used: 1 not finite",
        "glass4: rows not used: 1 not finite",
        "tables not found and left out: yeast4",
        "glass4 left out: too few rows: 17 targets, 2 outliers",
    ]
    with pytest.raises(DataError, match="'abalone'"):
        find_sets(tmp_path, ["abalone"])
    with pytest.raises(DataError, match="--data: must hold one of the tables"):
        find_sets(tmp_path / "deep" / "..", ["yeast6"])


@pytest.mark.parametrize(
    ("rejected", "index"),
    [
        ([0, 0, 0, 1, 1, 0], np.sqrt(3 / 4 * 3 / 4)),  # 3 of 4 accepted rows are targets, 3 of 4 targets accepted
        ([0, 0, 0, 0, 0, 0], np.sqrt(4 / 6)),  # accepting everything gives the share of targets
        ([1, 1, 1, 1, 1, 1], 0.0),
        ([0, 0, 0, 0, 1, 1], 1.0),
    ],
)
def test_fowlkes_mallows_by_hand(rejected: list[int], index: float) -> None:
    """sqrt(precision recall) of four targets and two outliers."""
    is_outlier = np.array([False] * 4 + [True] * 2)
    assert fowlkes_mallows(np.array(rejected, dtype=bool), is_outlier) == pytest.approx(index, rel=1e-15)


def test_selection_by_outliers_takes_the_best_index_and_never_trains_on_them() -> None:
    """Ten targets within 1, outliers at 2 and 3: radius 1.5 is perfect, 2.5 lets one in, 0.5 loses half."""
    X, outliers = np.linspace(0.1, 1.0, 10)[:, None], np.array([[2.0], [3.0], [2.0], [3.0]])
    seen: list[float] = []
    candidates = [Radius(radius, seen) for radius in (0.5, 2.5, 1.5, 9.0)]
    rng = np.random.default_rng(0)
    assert select_with_outliers_for_reproduction_only(candidates, X, outliers, n_folds=2, rng=rng) == 2
    assert max(seen) <= 1.0
    tied = [Radius(1.5, seen), Radius(1.6, seen), Radius(2.5, seen)]
    assert select_with_outliers_for_reproduction_only(tied, X, outliers, n_folds=2, rng=rng) == 1


def test_tests_are_over_problems_with_seeds_averaged() -> None:
    """Two problems, two seeds: the method that is better on average of seeds ranks first in both."""
    rows = [
        {"dataset": "s", "target": target, "method": method, "seed": seed, "gmean": value}
        for target in ("1", "2")
        for method, values in (("A", (0.9, 0.5)), ("B", (0.6, 0.6)))
        for seed, value in enumerate(values)
    ]
    entry = compared(rows, ["A", "B"], "gmean", "consistency")
    assert (entry["n_datasets"], entry["mean_ranks"]) == (2, {"A": 1.0, "B": 2.0})
    assert entry["measure"] == "gmean"
    assert entry["pairs"] == [{"a": "A", "b": "B", "p": pytest.approx(0.157299, rel=1e-5)}]  # z = sqrt 2


def test_groups_within_a_difference() -> None:
    """Largest runs only; a run of one is no group; exactly the difference apart is told apart."""
    assert groups_within([1.0, 1.4, 1.8, 3.0, 3.1], 1.0) == [(0, 2), (3, 4)]
    assert groups_within([1.0, 2.0, 3.0], 1.0) == []
    assert groups_within([1.0, 1.2, 1.4], 5.0) == [(0, 2)]


def test_plot_is_reproducible_and_refuses_other_files(tmp_path: Path) -> None:
    """The same ranks give the same SVG, with every name in it; .pdf and a missing folder are refused."""
    ranks = {"KOC": 1.5, "SVDD": 2.25, "KPCA": 2.25}
    for name in ("a.svg", "b.svg", "c.png"):
        critical_difference_plot(ranks, 0.5, tmp_path / name, title="ranks")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count("<!-- KOC") == 1
    for bad in (tmp_path / "a.pdf", tmp_path / "no" / "a.svg"):
        with pytest.raises(UsageError, match="--plot: must end in"):
            critical_difference_plot(ranks, 0.5, bad, title="ranks")


def test_cell_counts_every_row_once_and_tells_far_outliers() -> None:
    """Far blobs: all outliers rejected, most targets accepted, and both measures follow from the two shares."""
    row = paper2.run_cell(paper2.Cell(blobs(), "KOC", "consistency", "small", 0))
    assert (row["n_targets"], row["n_outliers"], row["tnr"], len(row["chosen"])) == (60, 20, 1.0, 5)
    assert 0.7 < row["tpr"] < 1.0
    assert row["tpr"] * 60 == pytest.approx(round(row["tpr"] * 60), abs=1e-9)
    assert row["gmean"] == pytest.approx(np.sqrt(row["tpr"]), rel=1e-12)
    assert row["fowlkes_mallows"] == pytest.approx(np.sqrt(row["tpr"]), rel=1e-12)  # precision 1
    assert row == paper2.run_cell(paper2.Cell(blobs(), "KOC", "consistency", "small", 0))


@pytest.mark.parametrize("rule", ["consistency", "iqr-proxy"])
def test_selection_never_sees_an_outlier(rule: str) -> None:
    """Other outliers in the same rows: what is chosen and what is accepted of the targets stay the same."""
    near, far = (paper2.run_cell(paper2.Cell(blobs(far=place), "AEKOC", rule, "small", 0)) for place in (0.0, 8.0))
    assert (near["chosen"], near["tpr"], near["failed_share"]) == (
        far["chosen"],
        far["tpr"],
        far["failed_share"],
    )
    assert near["tnr"] < 0.5 < far["tnr"]


def test_outliers_choose_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """--selection outliers hands over those of the other four folds alone, 16 of 20."""
    seen = []

    def spy(candidates: Any, X: np.ndarray, outliers: np.ndarray, **rest: Any) -> int:
        seen.append((len(candidates), len(X), len(outliers)))
        return 1

    monkeypatch.setattr(paper2, "select_with_outliers_for_reproduction_only", spy)
    row = paper2.run_cell(paper2.Cell(blobs(), "KOC", "outliers", "small", 0))
    assert seen == [(3, 48, 16)] * 5
    assert row["chosen"] == [{"C": 1.0}] * 5


def test_run_reports_both_measures_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are kept as they come; a second run takes them from the file, a cut-off last line is computed again."""
    resume, told = tmp_path / "rows.jsonl", []
    settings: dict[str, Any] = {"datasets": ["iris"], "methods": FAST, "resume": resume, "n_jobs": 1}
    first = paper2.run(None, plot=tmp_path / "ranks.svg", **settings)
    text = resume.read_text(encoding="utf-8")
    assert len(text.splitlines()) == len(first.rows) == 6
    assert (tmp_path / "ranks.svg").stat().st_size > 1000
    assert [(entry["measure"], entry["n_datasets"]) for entry in first.friedman] == [
        ("gmean", 3),
        ("fowlkes_mallows", 3),
    ]
    rows = json.loads(json.dumps(first.to_json(), allow_nan=False))["rows"]
    contracted = {"dataset", "rule", "variant", "leak", "seed", "gmean", "tpr", "tnr", "gmean_sd", "n_outliers"}
    assert all(contracted <= set(row) and row["leak"] is False for row in rows)
    assert {(row["variant"], row["rule"]) for row in rows} >= {("KOC", "own")}
    assert "| KOC " in first.to_markdown()
    resume.write_text(text[:-20], encoding="utf-8")
    calls, compute = [], paper2.run_cell
    monkeypatch.setattr(paper2, "run_cell", lambda *cell: calls.append(cell) or compute(*cell))
    again = paper2.run(None, progress=lambda stage, done, total: told.append((done, total)), **settings)
    assert len(calls) == 1
    assert again.to_json() == first.to_json()
    assert told == [(5, 6), (6, 6)]
    assert sorted(resume.read_text(encoding="utf-8").splitlines()) == sorted(text.splitlines())


def test_rows_of_other_settings_are_left_alone(tmp_path: Path) -> None:
    """A resume file may hold another selection's rows: they are neither used nor lost."""
    resume = tmp_path / "rows.jsonl"
    settings: dict[str, Any] = {"datasets": ["iris"], "methods": ["OCSVM"], "resume": resume, "n_jobs": 1}
    paper2.run(None, **settings)
    report = paper2.run(None, selection="outliers", **settings)
    assert {row["selection"] for row in report.rows} == {"outliers"}
    assert len(resume.read_text(encoding="utf-8").splitlines()) == 6
    assert report.friedman == []  # one method has nothing to be compared with


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "iqr"}, "--selection: must be among consistency, iqr-proxy, outliers; got 'iqr'"),
        ({"grid": "huge"}, "--grid: must be among small, full"),
        ({"methods": []}, "--methods: must name at least one method"),
        ({"methods": ["DOC"]}, "--methods: must be among .*got 'DOC'"),
        ({"plot": Path("ranks.pdf")}, "--plot: must end in .svg or .png"),
        ({"datasets": ["glass2"]}, "--data: must hold one of the tables glass2; got none"),
    ],
)
def test_bad_requests_are_told_before_the_work(settings: dict[str, Any], message: str) -> None:
    """Each names its option, what would do, and what came."""
    with pytest.raises((UsageError, DataError), match=message):
        paper2.run(None, **settings)


@pytest.mark.parametrize("text", ["not json\n", '{"dataset": "iris"}\n', "[1]\n", '{"precious": "a week"}'])
def test_a_file_of_something_else_is_not_resumed(tmp_path: Path, text: str) -> None:
    """It is refused by name and left as it is."""
    other = tmp_path / "notes.txt"
    other.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--resume: must be a file of rows that this command wrote"):
        paper2.run(None, datasets=["iris"], methods=["OCSVM"], resume=other)
    assert other.read_text(encoding="utf-8") == text


def test_bundled_problem_of_a_class_has_the_rows_of_all() -> None:
    """The same rows in every problem of a data set; the flags of all classes together leave each row in once."""
    problems = list(bundled_sets("iris"))
    assert all((item.X == problems[0].X).all() for item in problems)
    assert np.array_equal(sum((~item.is_outlier).astype(int) for item in problems), np.ones(150, dtype=int))


def test_rows_of_other_data_or_spoilt_figures_are_not_taken(tmp_path: Path) -> None:
    """A changed value of the data is another key; a figure outside 0..1 is refused."""
    one, other = blobs(), blobs(far=8.5)
    assert paper2.Cell(one, "KOC", "consistency", "small", 0).head()["data"] == blobs().digest() != other.digest()
    resume = tmp_path / "rows.jsonl"
    settings: dict[str, Any] = {"datasets": ["iris"], "methods": ["OCSVM"], "resume": resume, "n_jobs": 1}
    paper2.run(None, **settings)
    text = resume.read_text(encoding="utf-8")
    for figure in ("7", "NaN", '"x"'):
        resume.write_text(re.sub(r'"gmean": [0-9.]+', f'"gmean": {figure}', text), encoding="utf-8")
        with pytest.raises(UsageError, match="--resume: must be a file of rows that this command wrote"):
            paper2.run(None, **settings)
