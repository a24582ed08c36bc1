"""The training report: one HTML file without any outside asset, its plots inside it as PNG images.

Every name that came from data is escaped in HTML and kept from matplotlib's formula syntax in plots. The report speaks
of accepted and rejected windows of normal activity: the trainer saw no falls, so it says nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stream_occ.alarm_budget import claim_in_words
from stream_occ.page import COLOURS, bullets, facts, grid, image, label, page, text, write_page
from stream_occ.reach import Reach
from stream_occ.samples import FloatArray
from stream_occ.training import TrainingResult

BLUE, ORANGE, GREY = *COLOURS[:2], "#6b7280"
MAX_ACTIVITIES = 60
N_BINS = 60

_PREFACE = (
    '<p class="note">Trained on normal activity alone. The figures below say which windows of normal activity the '
    "model accepts. They say nothing about falls: the trainer used no fall recording. How many falls a model flags is "
    "measured by <code>stream-occ evaluate</code>, on people who are not in its training set.</p>\n"
)
_CLAIM_TEXT = (
    "<p>Alarms are episodes that the event engine of the service raises on recordings of held-out people or minutes, "
    "not windows. The threshold was chosen on these very hours: only <em>supported</em> is a claim.</p>"
)
_THRESHOLD_TEXT = (
    "<p>The share of held-out normal windows that would be rejected at each threshold. Windows overlap, so one odd "
    "moment rejects several in a row: this is no rate of alarms.</p>"
)
_RANGE_TEXT = (
    "<p>Range of each feature over the training windows, scaled as the detector sees it: thin line from least to "
    "greatest, thick line from the 5 % to the 95 % quantile, dot at the median. The axis is linear from -1 to 1 and "
    "logarithmic beyond.</p>"
)


def write_report(result: TrainingResult, path: str | Path) -> None:
    """Writes the report, whole or not at all; StreamOccError where the disk refuses."""
    write_page(render_report(result), Path(path), flag="--report")


def render_report(result: TrainingResult) -> str:
    """The report's HTML."""
    summary = result.summary
    sections = (
        ("In short", facts(_in_short(summary))),
        *([("False alarms", _CLAIM_TEXT + facts(claimed))] if (claimed := _claim(summary)) else []),
        *([("Adapted to one wearer", facts(_adapted(summary["adaptation"])))] if "adaptation" in summary else []),
        ("Worth knowing", bullets(summary["notes"]) if summary["notes"] else "<p>Nothing odd was found.</p>"),
        ("Scores of held-out normal windows", _held_out_text(summary) + _plot(_score_histogram, result)),
        ("Threshold against rejected share", _THRESHOLD_TEXT + _plot(_threshold_curve, result)),
        ("Acceptance by activity", _plot(_acceptance_bars, result) + _activity_table(summary["activities"])),
        ("Ranges of the features", _RANGE_TEXT + _plot(_feature_ranges, result) + _range_table(result)),
        ("How it was made", facts(_provenance(summary))),
    )
    blind = summary.get("blind")
    warning = f'<p class="note"><strong>Blind model: it {text(blind)}.</strong></p>\n' if blind else ""
    return page(f"Training report of model {summary['model_id']}", sections, preface=_PREFACE + warning)


def _in_short(summary: dict[str, Any]) -> list[tuple[str, str]]:
    threshold, rates = summary["threshold"], summary["rate_hz_measured"]
    refused = ", ".join(f"{n} {reason}" for reason, n in summary["refused_rows"].items()) or "none"
    tuning = [
        (f"Fitted {name}", ", ".join(f"{key}: {value:.6g}" for key, value in spread.items()))
        for name, spread in summary.get("tuning", {}).items()
        if spread is not None
    ]
    return [
        ("Data sets", ", ".join(summary["datasets"])),
        ("People, recordings", f"{summary['n_people']}, {summary['n_recordings']}"),
        ("Recorded time", f"{summary['hours']:.2f} h"),
        ("Training windows", f"{summary['n_windows']} (thinned by {summary['n_windows_thinned']})"),
        ("Fall recordings left out", str(summary["n_falls_left_out"])),
        ("Left out by filters, too short", f"{summary['n_filtered_out']}, {summary['n_too_short']}"),
        ("Rows refused by the loader", refused),
        ("Sampling rates", f"{rates['min']:.1f} to {rates['max']:.1f} Hz, median {rates['median']:.1f} Hz"),
        ("Placement", ", ".join(summary["placements"])),
        *([("Sensors' range", reach.in_words())] if (reach := Reach.of_model({"training": summary})) else []),
        ("Detector", f"{summary['config']['detector']['name']} on {summary['config']['feature_set']}"),
        *tuning,
        ("Threshold", f"{threshold['value']:.6g} by rule {threshold['rule']}"),
        ("Held-out windows rejected", f"{threshold['n_rejected']} of {threshold['n_windows']}"),
    ]


def _adapted(found: dict[str, Any]) -> list[tuple[str, str]]:
    def told(own: dict[str, Any]) -> str:
        rate, low, high = own["alarms_per_hour"]
        return (
            f"{own['n_alarms']} alarms, {rate:.3g} an hour (exact Poisson 95 % interval {low:.3g} to {high:.3g}); "
            f"{own['n_flagged_windows']} windows above the threshold; mean score {own['mean_score']:.3g}"
        )

    return [
        ("General model", str(found["adapted_from"])),
        ("Its rows, and the wearer's", f"{found['n_rows_general']}, {found['n_rows_wearer']}"),
        ("Above its threshold, left out in all", f"{found['n_fall_like']}, {found['n_left_out']} windows"),
        ("General model on the wearer's minutes", told(found["before"])),
        ("Adapted, each half by the other", told(found["after"])),
    ]


def _claim(summary: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name.capitalize(), words) for name, words in claim_in_words(summary["threshold"])]


def _provenance(summary: dict[str, Any]) -> list[tuple[str, str]]:
    config = summary["config"]
    settings = [(key, str(value)) for key, value in config.items() if key != "data"]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return [
        ("Model id", summary["model_id"]),
        ("Data SHA-256", summary["data_sha256"]),
        ("Versions", versions),
        *settings,
    ]


def _held_out_text(summary: dict[str, Any]) -> str:
    threshold = summary["threshold"]
    unit, n_folds = text(threshold["held_out"]), threshold["n_folds"]
    return (
        f"<p>{threshold['n_windows']} windows, each scored by a detector that never saw its {unit} ({n_folds} folds). "
        "High is abnormal; right of the line a window is rejected.</p>"
    )


def _score_histogram(axes: Any, result: TrainingResult) -> None:
    scores, threshold = result.evidence.scores, result.model.threshold
    low, high = np.quantile(scores, [0.0, 0.999])
    width = (max(high, threshold) - min(low, threshold)) / N_BINS or 1.0
    n_left, n_right = int((threshold - low) / width) + 2, int((high - threshold) / width) + 2
    edges = threshold + width * np.arange(-max(n_left, 1), max(n_right, 1) + 1)  # the threshold is an edge
    inside = np.clip(scores, edges[0], edges[-1])
    axes.hist(inside[scores <= threshold], edges, color=BLUE, label="accepted")
    axes.hist(inside[scores > threshold], edges, color=ORANGE, label="rejected")
    axes.axvline(threshold, color="black", linewidth=1.2, label=f"threshold {threshold:.4g}")
    axes.set_yscale("symlog", linthresh=10)
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.set(xlabel="score (high = abnormal; the last bin holds all beyond)", ylabel="windows")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


def _threshold_curve(axes: Any, result: TrainingResult) -> None:
    scores, threshold = np.sort(result.evidence.scores), result.model.threshold
    share = 100 * (1 - np.arange(1, len(scores) + 1) / len(scores))
    axes.step(scores, share, where="post", color=BLUE)
    axes.axvline(threshold, color="black", linewidth=1.2)
    rejected = 100 * float((scores > threshold).mean())
    axes.plot([threshold], [rejected], "o", color=ORANGE, label=f"{rejected:.2f} % at {threshold:.4g}")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 0.5, 1, 5, 10, 50, 100], ["0", "0.5", "1", "5", "10", "50", "100"])
    axes.set(xlabel="threshold", ylabel="held-out windows rejected, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))


def _acceptance_bars(axes: Any, result: TrainingResult) -> None:
    table = list(result.summary["activities"].items())[:MAX_ACTIVITIES]
    accepted = np.array([100 * row["accepted_share"] for _, row in table])
    place = np.arange(len(table))
    axes.barh(place, accepted, color=BLUE, label="accepted")
    axes.barh(place, 100 - accepted, left=accepted, color=ORANGE, label="rejected")
    axes.set_yticks(place, [label(name) for name, _ in table])
    axes.invert_yaxis()
    axes.set(xlabel="held-out windows, %", xlim=(0, 100))
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _set_height(axes, len(table))


def _feature_ranges(axes: Any, result: TrainingResult) -> None:
    names = result.model.feature_set.NAMES
    least, low, middle, high, greatest = result.model.scaler.transform(result.feature_quantiles)
    place = np.arange(len(names))
    axes.hlines(place, least, greatest, color=GREY, linewidth=1)
    axes.hlines(place, low, high, color=BLUE, linewidth=4)
    axes.plot(middle, place, "o", color=ORANGE, markersize=4)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yticks(place, [label(name) for name in names], fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(alpha=0.3, axis="x")
    axes.set(xlabel=f"scaled value ({label(result.model.scaler.kind)})")
    _set_height(axes, len(names))


def _set_height(axes: Any, n_rows: int) -> None:
    axes.figure.set_size_inches(8, 1.4 + 0.22 * n_rows)


def _plot(draw: Callable[..., None], result: TrainingResult) -> str:
    return image(partial(draw, result=result), draw.__name__.strip("_").replace("_", " "), height_in=3.4)


def _activity_table(activities: dict[str, dict[str, float | int]]) -> str:
    rows = (
        (name, row["n_recordings"], row["n_windows"], f"{100 * row['accepted_share']:.1f} %")
        for name, row in activities.items()
    )
    return grid(("Activity", "Recordings", "Windows", "Accepted when held out"), rows)


def _range_table(result: TrainingResult) -> str:
    quantiles: FloatArray = result.feature_quantiles
    rows = (
        (name, *(f"{value:.4g}" for value in quantiles[:, i])) for i, name in enumerate(result.model.feature_set.NAMES)
    )
    return grid(("Feature (unscaled)", "least", "5 %", "median", "95 %", "greatest"), rows)
