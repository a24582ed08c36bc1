"""False reports of drift on days without one, and hours to a real one: python benchmarks/drift.py --json drift.json

Scores are those of MobiFall's nine people with normal recordings (`--data`, default STREAM_OCC_DATA or ../shared/data:
mobifall.zip), each by a model of six others (OCNN(5, 5, floor=10), min-max). Days are made of them: bouts of standing,
walking, stairs and jogging drawn at random, each a stretch of a recording of that person and activity, wound round
where the bout is longer, of log-normal length (medians 30 s to 10 min, at most an hour). `steady`: 24 such hours;
`nights`: 16, then 8 of standing still; `calm nights`: the scores of these halved, as sleepers lie stiller than anybody
stands. These days have no drift, so each report is false. Changes begin after `--before` days and are followed for
four: the sensor turned half round about its y axis; or another person wears it.

`adwin` is river.drift.ADWIN with its defaults, on every score or on means of blocks (checked at each block), scores as
ranks among those of the first four hours, since it needs values from 0 to 1; `ours` is stream_occ.drift's, with its
defaults but for the block.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from river.drift import ADWIN

from stream_occ.datasets import open_dataset
from stream_occ.detectors import OCNN, fit_scaler
from stream_occ.drift import DriftPolicy, DriftWatch
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.samples import NS_PER_S, Decision, FloatArray, SampleBlock

PER_HOUR = 7200  # windows, hop 0.5 s
PER_SPACING = 10  # windows in the watch's 5 s
HALF_TURN = np.array([-1.0, 1.0, -1.0])
BOUTS = {"STD": (0.5, 600.0), "WAL": (0.35, 180.0), "STN": (0.05, 30.0), "STU": (0.05, 30.0), "JOG": (0.05, 120.0)}
Person = dict[str, list[tuple[FloatArray, FloatArray]]]  # activity -> scores as worn, and turned, of each recording
Watch = Callable[[FloatArray], list[float]]


def people(data: Path) -> list[tuple[int, Person]]:
    """(model, scores) of each person."""
    trials, turned = [], []
    for recording in open_dataset("mobifall", data).iter_recordings():
        if recording.is_fall:
            continue
        block = recording.block
        other = SampleBlock(block.device_id, block.t_ns, block.acc_ms2 * HALF_TURN, block.gyr_rads * HALF_TURN)
        trials.append(extract_trial(recording, FrontEnd()))
        turned.append(extract_trial(replace(recording, block=other), FrontEnd()))
    names = sorted({trial.subject for trial in trials})
    found: dict[str, tuple[int, Person]] = {}
    for fold in range(3):
        tested = names[fold::3]
        X = np.concatenate([trial.X for trial in trials if trial.subject not in tested])
        scaler = fit_scaler(X, "min-max")
        scorer = OCNN(5, 5, floor=10.0).fit(scaler.transform(X)).to_scorer()
        for trial, other_trial in zip(trials, turned, strict=True):
            if trial.subject in tested and len(trial.X):
                scores = [scorer.score(scaler.transform(each.X)) for each in (trial, other_trial)]
                activity = trial.name.split("/")[2]
                person = found.setdefault(trial.subject, (fold, {}))[1]
                person.setdefault(activity, []).append((scores[0], scores[1]))
    return list(found.values())


def days(person: Person, n_days: float, rng: np.random.Generator, *, turned: bool, night: float | None) -> FloatArray:
    """Scores of n_days, one in 0.5 s; night: what the scores of eight hours a day are multiplied by, None for none."""
    names = [name for name in BOUTS if name in person]
    shares = np.array([BOUTS[name][0] for name in names])
    parts, n, n_wanted = [], 0, round(n_days * 24 * PER_HOUR)
    while n < n_wanted:
        left = 24 * PER_HOUR - n % (24 * PER_HOUR)
        factor = 1.0
        if night is not None and left <= 8 * PER_HOUR:
            name, length, factor = "STD", left, night
        else:
            name = names[rng.choice(len(names), p=shares / shares.sum())]
            length = int(np.clip(rng.lognormal(np.log(BOUTS[name][1]), 1.0), 5.0, 3600.0) * 2)
        recordings = person[name]
        scores = recordings[rng.integers(len(recordings))][int(turned)]
        parts.append(factor * np.take(scores, rng.integers(len(scores)) + np.arange(length), mode="wrap"))
        n += length
    return np.concatenate(parts)[:n_wanted]


def adwin(block_s: float | None) -> Watch:
    """Hours at which ADWIN reports."""

    def watch(scores: FloatArray) -> list[float]:
        reference = np.sort(scores[: 4 * PER_HOUR])
        values = np.searchsorted(reference, scores) / len(reference)
        size = 1 if block_s is None else round(2 * block_s)
        values = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
        detector = ADWIN() if block_s is None else ADWIN(clock=1)
        reports = []
        for i, value in enumerate(values.tolist(), start=1):
            detector.update(value)
            if detector.drift_detected:
                reports.append(i * size / PER_HOUR)
        return reports

    return watch


def ours(policy: DriftPolicy) -> Watch:
    """Hours at which the service's watch reports."""

    def watch(scores: FloatArray) -> list[float]:
        watching, reports = DriftWatch(policy), []
        for i, score in enumerate(scores[::PER_SPACING].tolist()):
            decision = Decision("d", i * 5 * NS_PER_S, score, 0.0, "normal", "m")
            if watching.push(decision) is not None:
                reports.append((i + 1) * PER_SPACING / PER_HOUR)
        return reports

    return watch


WATCHES: dict[str, Watch] = {
    "adwin, every score": adwin(None),
    **{f"adwin, {block_s:g} s": adwin(block_s) for block_s in (60.0, 600.0, 1800.0)},
    **{f"ours, {block_s:g} s": ours(DriftPolicy(block_s=block_s)) for block_s in (1200.0, 1800.0, 3600.0)},
}


def measure(
    everyone: list[tuple[int, Person]], arguments: argparse.Namespace, *, night: float | None
) -> dict[str, Any]:
    """False reports and delays of all watches on the same days."""
    rng = np.random.default_rng(arguments.seed)
    n_false = dict.fromkeys(WATCHES, 0)
    delays: dict[str, dict[str, list[float]]] = {name: {"turned": [], "another": []} for name in WATCHES}
    for model, person in everyone:
        quiet = days(person, arguments.days, rng, turned=False, night=night)
        others = [other for its_model, other in everyone if its_model == model and other is not person]
        before = quiet[-round(arguments.before * 24 * PER_HOUR) :]
        changes = {
            "turned": days(person, 4, rng, turned=True, night=night),
            "another": days(others[rng.integers(len(others))], 4, rng, turned=False, night=night),
        }
        for name, watch in WATCHES.items():
            n_false[name] += len(watch(quiet))
            for change, after in changes.items():
                if name != "adwin, every score":
                    start = len(before) / PER_HOUR
                    late = [hour - start for hour in watch(np.concatenate([before, after])) if hour > start]
                    delays[name][change].append(late[0] if late else np.inf)
    n_days = arguments.days * len(everyone)
    return {
        name: {
            "false_reports": n_false[name],
            "false_per_day": round(n_false[name] / n_days, 4),
            "false_per_day_upper_95": round(float(-np.log(0.05)) / n_days, 4) if n_false[name] == 0 else None,
            **{
                f"{change}_{what}": value
                for change, hours in delays[name].items()
                if hours
                for what, value in (
                    ("found", f"{np.isfinite(hours).sum()} of {len(hours)}"),
                    ("median_h", round(float(np.median(hours)), 1) if np.isfinite(np.median(hours)) else None),
                )
            },
        }
        for name in WATCHES
    }


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("STREAM_OCC_DATA", "../shared/data")) / "mobifall.zip"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--days", type=float, default=10.0, help="without a change, of each person")
    parser.add_argument("--before", type=float, default=4.0, help="days before a change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    everyone = people(arguments.data)
    result = {
        "people": len(everyone),
        "days": arguments.days * len(everyone),
        "steady": measure(everyone, arguments, night=None),
        "nights": measure(everyone, arguments, night=1.0),
        "calm nights": measure(everyone, arguments, night=0.5),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
