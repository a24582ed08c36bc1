"""The report of an evaluation as one HTML file: figures, trade-off, activities, types of falls, delays, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from stream_occ.alarm_budget import DEVELOPMENT_SETS
from stream_occ.evaluation.presets import DEFAULT_KEY
from stream_occ.evaluation.report import Evaluation, MethodResult, Protocol
from stream_occ.evaluation.tables import DECIDING, RANKING, cell, ordered_results, summary_line, warning_lines
from stream_occ.page import COLOURS, facts, folded, grid, image, label, notes, page, text

N_BINS = 40

_STAGED = (
    "Staged falls are not real falls. The falls of recorded sets are acted, by mostly young people, on mats; detectors "
    "that did well on them have done much worse on real falls of frail people. Normal recordings of these sets are "
    "short and dense with vigorous activity: alarms per recorded hour are no estimate of alarms per day of living."
)
_DEVELOPMENT = (
    "{name}: a development set. Features, detectors and defaults were chosen with {part} at hand; figures on them are "
    "no test on unseen data."
)
_FIGURES_TEXT = (
    "<p>In brackets: 95 % intervals by bootstrap over people. Falls at so many per cent false trials, and AUC, compare "
    "rankings. Gmeans, falls flagged, false alarms and delay are at thresholds set on training people's normal "
    "recordings alone. docs/evaluation.md says what each one is.</p>"
)
_TRADE_OFF_TEXT = (
    "<p>The whole pipeline at one threshold after another, on the scale common to the folds. These thresholds are "
    "chosen on the tested recordings: the curves compare methods and promise nothing. A diamond is what the pipeline "
    "does at the threshold that training people's recordings give for the budget of {budget:g}/h (dotted). Points at "
    "the left edge, marked 0, raised no alarm in {hours:.2f} h.</p>"
)
_ACTIVITY_TEXT = (
    "<p>Normal recordings, the most alarms an hour first. Alarms are those of the pipeline within its budget; the last "
    "column is the share of recordings whose largest score lies above the trial threshold (reject share {share:g}).</p>"
)
_FALL_TYPE_TEXT = (
    "<p>Falls, the fewest flagged first. Early alarms came before the fall and count as false. A recording too short "
    "for a window is a missed fall.</p>"
)
_DELAY_TEXT = (
    "<p>Flagged falls, from the end of the fall (annotated, else the instant of the largest |a|) to the alert. "
    "Negative: the alert came before that instant.</p>"
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a run was made: command line, what was read, versions by name, and what its reader must know."""

    command: str
    data: Sequence[tuple[str, str]]
    versions: Sequence[tuple[str, str]]
    remarks: Sequence[str] = ()


def render_html(evaluation: Evaluation, protocol: Protocol, provenance: Provenance) -> str:
    """The page."""
    results = ordered_results(evaluation)
    first = next((item for item in results if item[0] == DEFAULT_KEY), results[0])
    shown = [first, *(item for item in results if item is not first)]
    hours, budget = evaluation.adl_hours, protocol.max_false_alarms_per_hour
    sections = [
        ("Figures", _FIGURES_TEXT + _figures(results)),
        (
            "Sensitivity against false alarms",
            _TRADE_OFF_TEXT.format(budget=budget, hours=hours)
            + image(partial(_trade_off, results=shown, hours=hours, budget=budget), "falls against false alarms"),
        ),
        (
            "False alarms by activity",
            _ACTIVITY_TEXT.format(share=protocol.reject_share) + _for_each(shown, _activities),
        ),
        ("Falls flagged by type", _FALL_TYPE_TEXT + _for_each(shown, _fall_types)),
        ("Delay", _DELAY_TEXT + _delays(*first)),
        ("How it was made", facts(_provenance(evaluation, protocol, provenance))),
    ]
    title = f"Evaluation on {evaluation.dataset}"
    if evaluation.train_dataset is not None:
        title += f", trained on {evaluation.train_dataset}"
    remarks = [*provenance.remarks, *warning_lines(evaluation), *_development(evaluation), _STAGED]
    preface = f"<p>{text(summary_line(evaluation))}.</p>" + notes(remarks)
    return page(title, sections, preface=preface)


def _development(evaluation: Evaluation) -> list[str]:
    return [_DEVELOPMENT.format(name=name, part=DEVELOPMENT_SETS[name]) for name in evaluation.development_sets]


_Results = Sequence[tuple[str, MethodResult]]


def _figures(results: _Results) -> str:
    tables = []
    for columns, is_deciding in ((RANKING, False), (DECIDING, True)):
        heads = ["method", *(title for title, _ in columns), *(["false alarms"] if is_deciding else [])]
        rows = [
            [key, *(cell(own.figures[name]) for _, name in columns), *([own.n_false_alarms] if is_deciding else [])]
            for key, own in results
        ]
        tables.append(grid(heads, rows))
    return "<p></p>".join(tables)


def _trade_off(axes: Any, results: _Results, hours: float, budget: float) -> None:
    """One curve a method, the first on top; no alarm is drawn at half an alarm in all hours: a log axis has no 0."""
    least = 0.5 / hours if hours > 0 else 0.5
    for n, (key, own) in enumerate(results):
        look = {"color": COLOURS[n % len(COLOURS)], "linestyle": ("-", "--", ":")[n // len(COLOURS) % 3]}
        points = [
            (max(point.false_alarms_per_hour, least), 100 * point.fall_sensitivity)
            for point in own.breakdown.trade_off
            if point.false_alarms_per_hour is not None and point.fall_sensitivity is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker=".", label=label(key), **look)
        rate, flagged = own.figures["false_alarms_per_hour"].value, own.figures["fall_sensitivity"].value
        if rate is not None and flagged is not None:
            axes.plot(max(rate, least), 100 * flagged, "D", color=look["color"], mec="black", ms=8, zorder=9 - n)
    if budget > 0:
        axes.axvline(budget, color="black", linestyle=":", linewidth=1)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [10.0**n for n in range(-4, 5) if least < 10.0**n <= high]
    axes.set_xticks([least, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
    axes.minorticks_off()
    axes.set(xlim=(min(low, 0.8 * least), high), ylim=(-2, 102))
    axes.set(xlabel="false alarms per hour of normal recordings (1/h)", ylabel="falls flagged (%)")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)


def _for_each(results: _Results, table: Any) -> str:
    """The table of the first method in sight, those of the others folded."""
    (key, own), *others = results
    return f"<p><b>{text(key)}</b></p>{table(own)}" + "".join(folded(key, table(own)) for key, own in others)


def _activities(result: MethodResult) -> str:
    rows = sorted(result.breakdown.by_activity.items(), key=lambda item: -(item[1].false_alarms_per_hour or 0.0))
    if not rows:
        return "<p>No normal recordings.</p>"
    heads = ("activity", "recordings", "hours", "false alarms", "alarms per hour", "above trial threshold")
    return grid(
        heads,
        [
            (
                name,
                row.n_recordings,
                f"{row.hours:.3f}",
                row.n_false_alarms,
                "-" if row.false_alarms_per_hour is None else f"{row.false_alarms_per_hour:.2f}",
                _percent(row.share_above_threshold),
            )
            for name, row in rows
        ],
    )


def _fall_types(result: MethodResult) -> str:
    rows = sorted(result.breakdown.by_fall_type.items(), key=lambda item: item[1].fall_sensitivity)
    if not rows:
        return "<p>No falls.</p>"
    heads = ("type of fall", "falls", "flagged", "flagged by pipeline", "above trial threshold", "early alarms")
    return grid(
        heads,
        [
            (
                name,
                row.n,
                row.n_flagged,
                _percent(row.fall_sensitivity),
                _percent(row.share_above_threshold),
                row.n_false_alarms,
            )
            for name, row in rows
        ],
    )


def _delays(key: str, result: MethodResult) -> str:
    delays = np.array(result.breakdown.delays_s)
    if not delays.size:
        return f"<p>{text(key)} flagged no fall.</p>"

    def draw(axes: Any) -> None:
        axes.hist(delays, N_BINS, color=COLOURS[0])
        axes.axvline(np.median(delays), color="black", linewidth=1.2, label=f"median {np.median(delays):.2f} s")
        axes.set(xlabel="delay from the end of the fall (s)", ylabel="flagged falls")
        axes.legend(frameon=False)

    low, high = np.quantile(delays, [0.05, 0.95])
    spread = f"{delays.size} flagged; 5 % under {low:.2f} s, 5 % over {high:.2f} s, the longest {delays.max():.2f} s."
    return f"<p><b>{text(key)}</b>: {spread}</p>" + image(draw, f"delays of {key}")


def _provenance(evaluation: Evaluation, protocol: Protocol, provenance: Provenance) -> list[tuple[str, object]]:
    return [
        ("Command", provenance.command),
        *provenance.data,
        ("Recordings, people", f"{evaluation.n_recordings}, {evaluation.n_people}"),
        ("Falls, too short to score", f"{evaluation.n_falls}, {evaluation.n_unscored}"),
        ("Normal activity", f"{evaluation.adl_hours:.2f} h"),
        ("Seed", evaluation.seed),
        ("Reject share of training people's trials", protocol.reject_share),
        ("Budget, false alarms per hour", protocol.max_false_alarms_per_hour),
        ("Bootstrap resamples", protocol.n_resamples),
        ("Versions", ", ".join(f"{name} {number}" for name, number in provenance.versions)),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
