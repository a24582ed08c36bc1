"""The page of an evaluation: whole in itself, escaped, with the words that it must say; and the warnings."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from stream_occ.errors import StreamOccError
from stream_occ.evaluation import Evaluation, Figure, Protocol, TrainingSet, evaluate
from stream_occ.evaluation.breakdown import ActivityRow, Breakdown, FallTypeRow, TradeOffPoint
from stream_occ.evaluation.html_report import Provenance, render_html
from stream_occ.evaluation.report import MethodResult
from stream_occ.evaluation.tables import loss_lines, warning_lines
from stream_occ.page import label, write_page
from tests.unit.evaluation_people import Distance, crowd

EVIL = "<script>alert('$x$')</script>"
FIGURES = (
    "trial_auc", "trial_sensitivity_at_1pct", "trial_sensitivity_at_5pct", "trial_gmean", "window_auc",
    "window_gmean", "fall_sensitivity", "false_alarms_per_hour", "median_delay_s",
)  # fmt: skip
ROWS = Breakdown(
    {"JUM": ActivityRow(27, 0.25, 3, 12.0, 0.125), "WAL": ActivityRow(9, 0.75, 0, 0.0, 0.0)},
    {"FOL": FallTypeRow(72, 54, 0.75, 0.875, 1)},
    [TradeOffPoint(2.0, 0, 0.0, 0.25), TradeOffPoint(1.0, 3, 3.0, 0.75)],
    [-0.5, 1.0, 2.25],
)
NOTHING = Breakdown({}, {}, [], [])
PROVENANCE = Provenance("stream-occ evaluate --dataset x", [("Tested on", "x, data")], [("numpy", "9.9")], ())


def result(*, breakdown=ROWS, n_false_alarms=3, **values):
    figures = dict.fromkeys(FIGURES, Figure(0.5, 0.25, 0.75)) | {
        name: Figure(value, value, value) for name, value in values.items()
    }
    return MethodResult(figures, n_false_alarms, breakdown)


def evaluation(dataset="x", *, n_people=24, train_dataset=None, **results):
    return Evaluation(dataset, 108, 72, n_people, 0, 1.0, 7, results or {"default": result()}, train_dataset)


class Tags(HTMLParser):
    """Tags with their attributes, and the rows of tables as text."""

    def __init__(self):
        super().__init__()
        self.tags, self.rows, self.is_cell = [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.is_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.is_cell = False

    def handle_data(self, data):
        if self.is_cell:
            self.rows[-1][-1] += data


def parsed(page):
    tags = Tags()
    tags.feed(page)
    return tags


def test_page_reaches_for_nothing_outside():
    """No script, link, frame or address; every image is inside; the browser is told to allow nothing else."""
    page = render_html(evaluation(), Protocol(), PROVENANCE)
    tags = parsed(page).tags
    assert {"script", "link", "iframe", "object", "base"}.isdisjoint(tag for tag, _ in tags)
    sources = [attributes["src"] for _, attributes in tags if "src" in attributes]
    assert len(sources) == 2
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not any("href" in attributes for _, attributes in tags)
    assert "://" not in re.sub(r'base64,[^"]+', "", page)
    assert "url(" not in page
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page


def test_names_from_data_are_text():
    """Data set, activity, type of fall, method, command and version are escaped everywhere."""
    rows = replace(ROWS, by_activity={EVIL: ROWS.by_activity["JUM"]}, by_fall_type={EVIL: ROWS.by_fall_type["FOL"]})
    provenance = Provenance(EVIL, [(EVIL, EVIL)], [(EVIL, EVIL)], [EVIL])
    page = render_html(evaluation(EVIL, train_dataset=EVIL, **{EVIL: result(breakdown=rows)}), Protocol(), provenance)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 10
    assert label("a$b$") == r"a\$b\$"


def test_tables_hold_the_rows():
    """Alarms an hour, shares and counts as they are in the breakdown, the worst first."""
    rows = parsed(render_html(evaluation(), Protocol(), PROVENANCE)).rows
    assert ["JUM", "27", "0.250", "3", "12.00", "12.5 %"] in rows
    assert ["FOL", "72", "54", "75.0 %", "87.5 %", "1"] in rows
    names = [row[0] for row in rows]
    assert names.index("JUM") < names.index("WAL")
    assert ["default", *["0.500 (0.250 to 0.750)"] * 5, "3"] in rows
    assert ["Seed", "7"] in rows
    assert ["Command", "stream-occ evaluate --dataset x"] in rows
    assert ["Versions", "numpy 9.9"] in rows


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("mobifall", None),
            ["mobifall: a development set. Features, detectors and defaults were chosen with its rec"],
        ),
        (
            ("sisfall", "weda-fall"),
            ["sisfall: a development set. Features, detectors and defaults were chosen with a sample", "weda-fall: a"],
        ),
        (("csv", "recording"), []),
    ],
)
def test_development_sets_are_called_so_and_staged_falls_not_real(names, said):
    """Also where the development set is the one trained on."""
    page = render_html(evaluation(names[0], train_dataset=names[1]), Protocol(), PROVENANCE)
    assert page.count("a development set") == len(said)
    assert all(words in page for words in said)
    assert "Staged falls are not real falls" in page


def test_page_without_falls_alarms_or_delays_is_still_a_page():
    """Empty tables and curves break nothing, with a budget of 0 and no hours either."""
    empty = dict.fromkeys(FIGURES, Figure(None, None, None))
    own = Evaluation("x", 1, 0, 1, 0, 0.0, 0, {"default": MethodResult(empty, 0, NOTHING)})
    page = render_html(own, Protocol(max_false_alarms_per_hour=0.0), PROVENANCE)
    assert "No falls." in page
    assert "flagged no fall" in page


def test_page_of_a_run():
    """From trials to the page, with everything of a real result in it."""
    own = evaluate("a", crowd(), [Distance()], Protocol(n_resamples=20), trained=TrainingSet("b", crowd(seed=1)))
    page = render_html(own, Protocol(), PROVENANCE)
    assert "Evaluation on a, trained on b" in page


def test_page_is_written_whole_or_not_at_all(tmp_path):
    """A folder in its place is one line, and nothing is left behind."""
    write_page("<p>", tmp_path / "r.html", flag="--html")
    assert (tmp_path / "r.html").read_text() == "<p>"
    (tmp_path / "folder").mkdir()
    with pytest.raises(StreamOccError, match="Give another --html path"):
        write_page("<p>", tmp_path / "folder", flag="--html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "r.html"]


def test_a_method_that_peak_acceleration_beats_is_named_the_default_first():
    """In trial AUC, in falls flagged, or both; a tie is no loss."""
    own = evaluation(
        knn5=result(trial_auc=0.8, fall_sensitivity=0.7),
        default=result(trial_auc=0.95, fall_sensitivity=0.25, n_false_alarms=1),
        peak_acc=result(trial_auc=0.9, fall_sensitivity=0.5, n_false_alarms=2),
        equal=result(trial_auc=0.9, fall_sensitivity=0.5),
        mahalanobis=result(trial_auc=0.8, fall_sensitivity=0.4),
    )
    assert loss_lines(own) == [
        "default loses to peak_acc: falls flagged 0.250 against 0.500 (with 1 and 2 false alarms)",
        "knn5 loses to peak_acc: trial AUC 0.800 against 0.900 (with 3 and 2 false alarms)",
        "mahalanobis loses to peak_acc: trial AUC 0.800 against 0.900, falls flagged 0.400 against 0.500 "
        "(with 3 and 2 false alarms)",
    ]
    page = render_html(own, Protocol(), PROVENANCE)
    assert "default loses to peak_acc" in page


def test_no_comparison_without_peak_acceleration_or_without_falls():
    """Null figures lose to nothing."""
    assert loss_lines(evaluation()) == []
    null = dict.fromkeys(FIGURES, Figure(None, None, None))
    own = {key: MethodResult(null, 0, NOTHING) for key in ("default", "peak_acc")}
    assert loss_lines(evaluation(**own)) == []


def test_few_people_are_told():
    """Intervals over a handful of people promise more than they hold."""
    assert warning_lines(evaluation()) == []
    (line,) = warning_lines(evaluation(n_people=1))
    assert line.startswith("1 person tested: ")
