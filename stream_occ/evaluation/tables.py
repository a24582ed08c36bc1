"""The report as text: two aligned Markdown tables, of rankings and of thresholds set on training people; warnings."""

from __future__ import annotations

from collections.abc import Sequence

from stream_occ.evaluation.methods import PeakAcceleration
from stream_occ.evaluation.metrics import Figure
from stream_occ.evaluation.presets import DEFAULT_KEY
from stream_occ.evaluation.report import Evaluation, MethodResult

RANKING = (
    ("trial AUC", "trial_auc"),
    ("falls at 1 % false trials", "trial_sensitivity_at_1pct"),
    ("falls at 5 % false trials", "trial_sensitivity_at_5pct"),
    ("window AUC", "window_auc"),
)
DECIDING = (
    ("trial gmean", "trial_gmean"),
    ("window gmean", "window_gmean"),
    ("falls flagged", "fall_sensitivity"),
    ("false alarms/h", "false_alarms_per_hour"),
    ("median delay, s", "median_delay_s"),
)
COMPARED = (("trial AUC", "trial_auc"), ("falls flagged", "fall_sensitivity"))
FEW_PEOPLE = 10
PEAK_KEY = PeakAcceleration().key


def summary_line(evaluation: Evaluation) -> str:
    """What was evaluated, in one line; 'development' beside each set that this package was chosen with."""

    def named(dataset: str) -> str:
        return f"{dataset}, development" if dataset in evaluation.development_sets else dataset

    source = "" if evaluation.train_dataset is None else f" (trained on {named(evaluation.train_dataset)})"
    return (
        f"{named(evaluation.dataset)}{source}: {evaluation.n_recordings} recordings of {_people(evaluation)}, "
        f"{evaluation.n_falls} falls, {evaluation.adl_hours:.2f} h of normal activity, "
        f"{evaluation.n_unscored} too short to score, seed {evaluation.seed}"
    )


def table_lines(evaluation: Evaluation) -> list[str]:
    """Both tables, best trial AUC first, with a blank line between them."""
    ordered = ordered_results(evaluation)
    return [*_table(ordered, RANKING), "", *_table(ordered, DECIDING, with_alarms=True)]


def ordered_results(evaluation: Evaluation) -> list[tuple[str, MethodResult]]:
    """Methods with their results, best trial AUC first."""
    return sorted(evaluation.results.items(), key=lambda item: -(item[1].figures["trial_auc"].value or 0.0))


def warning_lines(evaluation: Evaluation) -> list[str]:
    """What must be said beside the figures: too few people for intervals, methods that peak acceleration beats."""
    few = f"{_people(evaluation)} tested: an interval over so few is too narrow, and may be missing"
    return [*([few] if evaluation.n_people < FEW_PEOPLE else []), *loss_lines(evaluation)]


def loss_lines(evaluation: Evaluation) -> list[str]:
    """One line for each method that peak acceleration alone beats in trial AUC or in falls flagged, `default` first."""
    peak = evaluation.results.get(PEAK_KEY)
    if peak is None:
        return []
    others = [(key, own) for key, own in evaluation.results.items() if key != PEAK_KEY]
    lines = []
    for key, own in sorted(others, key=lambda item: item[0] != DEFAULT_KEY):
        lost = [
            f"{title} {own.figures[name].value:.3f} against {peak.figures[name].value:.3f}"
            for title, name in COMPARED
            if (own.figures[name].value or 0.0) < (peak.figures[name].value or 0.0)
        ]
        if lost:
            alarms = f"{own.n_false_alarms} and {peak.n_false_alarms} false alarms"
            lines.append(f"{key} loses to {PEAK_KEY}: {', '.join(lost)} (with {alarms})")
    return lines


def _people(evaluation: Evaluation) -> str:
    return f"{evaluation.n_people} {'person' if evaluation.n_people == 1 else 'people'}"


def _table(
    results: Sequence[tuple[str, MethodResult]], columns: Sequence[tuple[str, str]], *, with_alarms: bool = False
) -> list[str]:
    rows = [["method", *(title for title, _ in columns), *(["false alarms"] if with_alarms else [])]]
    for key, result in results:
        cells = [cell(result.figures[name]) for _, name in columns]
        rows.append([key, *cells, *([str(result.n_false_alarms)] if with_alarms else [])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def cell(figure: Figure) -> str:
    """value (low to high), or a dash where the data give none."""
    if figure.value is None:
        return "-"
    digits = 3 if abs(figure.value) < 1 else 2
    if figure.low is None or figure.high is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"
