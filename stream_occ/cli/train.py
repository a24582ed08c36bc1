"""Train a model on recordings of normal activity."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_occ.cli._common import (
    JsonOption,
    QuietOption,
    check_apart,
    check_output,
    counted,
    is_told,
    names_in,
    progress,
    self_test_rows,
    write_json,
)
from stream_occ.errors import UsageError, visible

if TYPE_CHECKING:
    from stream_occ.samples import FloatArray
    from stream_occ.scoring import Model
    from stream_occ.training import TrainingConfig, TrainingResult

WITH_ADAPT = frozenset(
    {"data", "people", "exclude_people", "activities", "exclude_activities", "allow_mixed_placement"}
)

EXAMPLES = (
    "stream-occ train --dataset mobifall --data mobifall.zip --out model.occ",
    "stream-occ train --dataset recording --data recordings/ --out ward.occ --config configs/train.yaml",
    "stream-occ train --dataset weda-fall --data weda-fall.zip --exclude-people U21 --seed 1 --out wrist.occ",
    "stream-occ train --adapt model.occ --dataset recording --data anna/ --out anna.occ",
)


def command(
    out: Annotated[Path, typer.Option("--out", metavar="MODEL.occ", help="Model file to write.")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set by name; repeat it, with --data, for several.")
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="Folder or archive of the data set before it.")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="Version of a data set that has several.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Training configuration (YAML); flags win over it.")
    ] = None,
    detector: Annotated[str | None, typer.Option(help="Detector preset. [default: fused]")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of the detector; may be repeated.")
    ] = None,
    feature_set: Annotated[str | None, typer.Option(help="Feature set. [default: fall31]")] = None,
    scaler: Annotated[
        str | None, typer.Option(help="auto, min-max, z-score or robust. [default: auto, as the detector's paper]")
    ] = None,
    people: Annotated[str | None, typer.Option(metavar="A,B", help="Train on these people alone.")] = None,
    exclude_people: Annotated[str | None, typer.Option(metavar="A,B", help="Leave these people out.")] = None,
    activities: Annotated[str | None, typer.Option(metavar="A,B", help="Train on these activities alone.")] = None,
    exclude_activities: Annotated[str | None, typer.Option(metavar="A,B", help="Leave these activities out.")] = None,
    allow_mixed_placement: Annotated[
        bool, typer.Option("--allow-mixed-placement", help="Accept recordings from several places on the body.")
    ] = False,
    rate_hz: Annotated[float | None, typer.Option(help="Rate of the model, Hz. [default: 50]")] = None,
    window_s: Annotated[float | None, typer.Option(help="Window length, s. [default: 5.0]")] = None,
    hop_s: Annotated[float | None, typer.Option(help="Hop between windows, s. [default: 0.5]")] = None,
    train_hop_s: Annotated[float | None, typer.Option(help="Hop in training, s. [default: --hop-s]")] = None,
    threshold: Annotated[
        str | None, typer.Option(metavar="RULE", help="budget, quantile, detector or auto. [default: auto]")
    ] = None,
    max_false_alarms_per_day: Annotated[
        float | None, typer.Option(metavar="N", help="Alarm budget on held-out people (rule budget). [default: 1]")
    ] = None,
    reject_share: Annotated[
        float | None, typer.Option(help="Share of held-out normal windows to reject (rule quantile). [default: 0.01]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every draw. [default: 0]")] = None,
    adapt: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.occ", help="Blend this general model with one wearer's normal recordings."),
    ] = None,
    vouched: Annotated[
        bool, typer.Option("--vouched", help="With --adapt: no fall is in them, blend also what looks like one.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sign the model with the key in this file.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="PATH", help="HTML report. [default: beside the model, .html]")
    ] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Train a model on recordings of normal activity.

    Fall recordings in the data are never used; it says how many were left out. With --adapt the recordings are one
    wearer's, 10 minutes or more; features, windows and threshold are those of the general model (docs/adapting.md).
    """
    from stream_occ.artifacts import read_key, save_model
    from stream_occ.training import load_training_config
    from stream_occ.training.adapting import settings_of
    from stream_occ.training.report import write_report

    flags = {
        "detector.name": detector,
        "feature_set": feature_set,
        "scaler": scaler,
        "people": names_in("--people", people),
        "exclude_people": names_in("--exclude-people", exclude_people),
        "activities": names_in("--activities", activities),
        "exclude_activities": names_in("--exclude-activities", exclude_activities),
        "allow_mixed_placement": allow_mixed_placement or None,
        "rate_hz": rate_hz,
        "window_s": window_s,
        "hop_s": hop_s,
        "train_hop_s": train_hop_s,
        "threshold.rule": _rule(threshold, max_false_alarms_per_day, reject_share),
        "threshold.max_false_alarms_per_day": max_false_alarms_per_day,
        "threshold.reject_share": reject_share,
        "seed": seed,
        "data": _sources(dataset or [], data or [], variant),
        **{f"detector.params.{name}": value for name, value in map(_param, param or [])},
    }
    given = {name: value for name, value in flags.items() if value is not None}
    if vouched and adapt is None:
        raise UsageError("--vouched", "come with --adapt", "it alone", "Name the general model")
    key = None if key_file is None else read_key(key_file)
    general = None if adapt is None else _general(adapt, key, config, given)
    settings = load_training_config(config, given if general is None else settings_of(general[0]) | given)
    others = [("--key-file", key_file), ("--config", config), ("--adapt", adapt)]
    others += [("--data", Path(source.path)) for source in settings.data]
    check_output("--out", out, makes_folder=False)
    report = report or out.with_suffix(".html")
    check_output("--report", report, makes_folder=False)
    check_apart([("--out", out), ("--report", report), ("--json", None if str(json) == "-" else json)], others)
    if not settings.data:
        raise UsageError(
            "--dataset, --data", "be given", "neither", "Name a data set, or list it under data: in --config"
        )
    result = _result(settings, general, is_vouched=vouched, is_quiet=quiet)
    save_model(result.model, out, self_test_X=result.self_test_X, key=key)
    write_report(result, report)
    if result.model.blindness:
        sys.stderr.write(f"WARNING: blind model: it {result.model.blindness}\n")
    if json is not None:
        write_json(json, {"model": str(out), "report": str(report), **result.summary})
    if is_told(json, quiet):
        _print(result, out, report)


def _result(
    settings: TrainingConfig, general: tuple[Model, FloatArray] | None, *, is_vouched: bool, is_quiet: bool
) -> TrainingResult:
    """A model of all data in the settings: a new one, or the general one (with its self-test rows) adapted."""
    from stream_occ.datasets import open_dataset
    from stream_occ.training import train
    from stream_occ.training.adapting import adapt
    from stream_occ.training.fitting import make_detector

    if general is None:
        make_detector(settings)  # a wrong name or parameter is told before the data are opened
    with ExitStack() as stack:
        opened = [open_dataset(source.dataset, source.path, variant=source.variant) for source in settings.data]
        sources = [stack.enter_context(source) for source in opened]
        told = stack.enter_context(progress(is_quiet=is_quiet))
        if general is None:
            return train(sources, settings, told)
        model, rows = general
        return adapt(sources, model, settings, self_test_X=rows, is_vouched=is_vouched, progress=told)


def _general(path: Path, key: bytes | None, config: Path | None, given: Mapping[str, Any]) -> tuple[Model, FloatArray]:
    """The model to adapt and its self-test rows; UsageError for a flag whose place is taken by the model."""
    from stream_occ.artifacts import load_model

    decided = sorted(set(given) - WITH_ADAPT, key=lambda name: (name == "threshold.rule", name))
    if config is not None or decided:
        flag = "--config" if config is not None else _flag(decided[0])
        remedy = "The general model has decided; calibrate sets a threshold"
        raise UsageError(flag, "be left out beside --adapt", "both", remedy)
    return load_model(path, key=key), self_test_rows(path)


def _flag(dotted: str) -> str:
    section, _, name = dotted.rpartition(".")
    if section == "detector.params":
        return "--param"
    return f"--{section}" if name in {"rule", "name"} else f"--{name.replace('_', '-')}"


def _rule(threshold: str | None, per_day: float | None, reject_share: float | None) -> str | None:
    """The rule asked for, by name or by a flag that belongs to one: who gives the flag wants the rule."""
    flags = (("--max-false-alarms-per-day", per_day, "budget"), ("--reject-share", reject_share, "quantile"))
    given = [(flag, rule) for flag, value, rule in flags if value is not None]
    if len(given) > 1:
        raise UsageError(" and ".join(flag for flag, _ in given), "be given one at a time", "both", "Leave one out")
    for flag, rule in given:
        if threshold not in (None, rule):
            raise UsageError(flag, f"come with --threshold {rule}", f"--threshold {threshold}", "Leave one out")
        return rule
    return threshold


def _param(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value read as YAML does: 5, 1.5, true, or text."""
    from stream_occ.config.yaml_lines import parse_yaml

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("--param", "be NAME=VALUE", repr(text), "Write for example --param n_estimators=10")
    return name, parse_yaml(value, f"--param {name}").data


def _sources(names: list[str], paths: list[Path], variant: str | None) -> tuple[dict[str, str | None], ...] | None:
    if len(names) != len(paths):
        raise UsageError(
            "--dataset, --data", "be given in pairs", f"{len(names)} and {len(paths)}", "Give each --dataset its --data"
        )
    pairs = zip(names, paths, strict=True)
    return tuple({"dataset": name, "path": str(path), "variant": variant} for name, path in pairs) or None


def _adapted(found: dict[str, Any]) -> list[str]:
    before, after = found["before"], found["after"]
    rate, low, high = after["alarms_per_hour"]
    return [
        f"Model {found['adapted_from']} adapted: {found['n_rows_wearer']} rows of the wearer beside "
        f"{found['n_rows_general']}; {found['n_left_out']} windows left out, {found['n_fall_like']} of them above its "
        "threshold.",
        f"{_span(found['minutes'] / 60)} of the wearer, each half by what knows the other: "
        f"{counted(before['n_alarms'], 'alarm')} with the general model, {after['n_alarms']} adapted "
        f"({rate:.2g} an hour, exact Poisson 95 % interval {low:.2g} to {high:.2g}); "
        f"{before['n_flagged_windows']} and {after['n_flagged_windows']} windows above the threshold.",
        "Alarm rate: the general model's claim stands in the file, stream-occ inspect tells it.",
    ]


def _refused(rows: dict[str, int]) -> list[str]:
    reasons = ", ".join(f"{n} {reason}" for reason, n in rows.items())
    return [f"Rows that the loader refused: {reasons}."] if reasons else []


def _span(hours: float) -> str:
    return f"{hours:.2f} h" if hours >= 1 else f"{60 * hours:.1f} min"


def _print(result: TrainingResult, out: Path, report: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    from stream_occ.alarm_budget import claim_in_words

    summary, threshold = result.summary, result.summary["threshold"]
    share = 100 * threshold["rejected_share"]
    adaptation = summary.get("adaptation")
    lines = [
        f"{'Trained on' if adaptation is None else 'Read'} {summary['n_windows']} windows of normal activity: "
        f"{counted(summary['n_people'], 'person', 'people')}, {counted(summary['n_recordings'], 'recording')}, "
        f"{_span(summary['hours'])}.",
        f"Left out {counted(summary['n_falls_left_out'], 'fall recording')} (falls never train a model), "
        f"{summary['n_filtered_out']} by your filters, {summary['n_too_short']} too short for a window.",
        f"Threshold {threshold['value']:.4g} by rule {threshold['rule']}: rejects {threshold['n_rejected']} of "
        f"{threshold['n_windows']} normal windows of held-out {threshold['held_out']} ({share:.2f} %).",
        *(
            [f"{name.capitalize()}: {text}." for name, text in claim_in_words(threshold)]
            if adaptation is None
            else _adapted(adaptation)
        ),
        *_refused(summary["refused_rows"]),
        *(f"Note: {note}" for note in summary["notes"]),
        f"Model {summary['model_id']} written to {out}, report to {report}.",
    ]
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(escape(visible(line)))
