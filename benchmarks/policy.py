"""What each setting of the event engine is worth: python benchmarks/policy.py mobifall mobifall.zip

Development figures behind docs/results.md: falls flagged and false alarms of the whole pipeline at one false alarm an
hour on people held out, by the protocol of `stream-occ evaluate`. The default model is fitted and scored once; then one
setting of the policy is changed at a time, and the threshold is set anew for each. `--ends`: with the window more that
the service would look at where a recording ends, had the device fallen silent there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ import alarm_budget, events, motion
from stream_occ.datasets import open_dataset
from stream_occ.evaluation.alarms import S_PER_HOUR, outcomes
from stream_occ.evaluation.extraction import extract_trials
from stream_occ.evaluation.presets import methods_of
from stream_occ.evaluation.protocol import Trial, assign_groups, kinds_of_people
from stream_occ.evaluation.report import score_folds
from stream_occ.events import EventPolicy
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.training.config import load_training_config

DEFAULT = EventPolicy()
CONSTANTS = {"MAX_FLAGGED_SHARE": (alarm_budget,), "TAIL_S": (motion, events)}  # no settings, and where they are read
CHANGES: dict[str, tuple[dict[str, float], ...]] = {
    "k of n": ({"k": 1, "n": 1}, {"k": 2, "n": 2}, {"k": 2, "n": 3}, {"k": 3, "n": 5}),
    "check": ({"check": True}, {"check": False}),
    "still_s": tuple({"still_s": value} for value in (0.5, 1.0, 2.0, 3.0, 5.0)),
    "still_acc_ms2": tuple({"still_acc_ms2": value} for value in (0.3, 0.5, 0.7, 1.0, 1.5)),
    "still_gyr_rads": tuple({"still_gyr_rads": value} for value in (0.2, 0.35, 0.5, 0.75, 1.0)),
    "posture_deg": tuple({"posture_deg": value} for value in (30.0, 45.0, 60.0, 75.0)),
    "check_s": tuple({"check_s": value} for value in (5.0, 10.0, 30.0, 60.0)),
    "merge_s": tuple({"merge_s": value} for value in (6.0, 10.0)),  # no service has less than 5.5 s
    "silence_s": tuple({"silence_s": value} for value in (2.0, 5.0, 10.0, 30.0, 120.0)),
    "max_check_s": tuple({"max_check_s": value} for value in (30.0, 60.0, 120.0, 300.0, 3600.0)),
    "refractory_s": tuple({"refractory_s": value} for value in (0.0, 10.0, 30.0, 60.0, 120.0, 300.0)),
    "MAX_FLAGGED_SHARE": tuple({"MAX_FLAGGED_SHARE": value} for value in (0.01, 0.02, 0.05, 0.1, 0.2)),
    "TAIL_S": tuple({"TAIL_S": value} for value in (0.5, 0.75, 1.0, 1.5, 2.0)),
}


def silenced(recording: Recording) -> Recording:
    """The recording, and one sample an hour after its end: the stream broke off there."""
    block = recording.block
    if not len(block):
        return recording
    longer = SampleBlock(
        block.device_id,
        np.append(block.t_ns, block.t_ns.max() + 3600 * NS_PER_S),
        np.concatenate([block.acc_ms2, block.acc_ms2[-1:]]),
        np.concatenate([block.gyr_rads, block.gyr_rads[-1:]]),
    )
    return replace(recording, block=longer)


def shortened(trial: Trial) -> Trial:
    """The trial of such a recording, of its own length."""
    return replace(trial, duration_s=max(0.0, trial.duration_s - 3600.0))


@contextmanager
def changed(change: Mapping[str, float]) -> Iterator[EventPolicy]:
    """The policy with one setting changed, or as it is while a constant is another."""
    owners = [(owner, name) for name in change for owner in CONSTANTS.get(name, ())]
    before = [getattr(owner, name) for owner, name in owners]
    for owner, name in owners:
        setattr(owner, name, change[name])
    yield DEFAULT if owners else replace(DEFAULT, **change)  # type: ignore[arg-type]
    for (owner, name), value in zip(owners, before, strict=True):
        setattr(owner, name, value)


def rows(dataset: str, data: Path, names: Sequence[str], per_hour: float, seed: int, *, ends: bool) -> Iterator[str]:
    """A table row for each of the named settings."""
    [method], front_end = methods_of(["default"], load_training_config(None))

    def extracted() -> list[Trial]:
        with open_dataset(dataset, data) as opened:
            recordings = map(silenced, opened.iter_recordings()) if ends else opened.iter_recordings()
            trials = extract_trials(recordings, front_end)
        return [shortened(trial) for trial in trials] if ends else trials

    trials = extracted()
    groups = assign_groups(kinds_of_people(trials), seed=seed)
    found = score_folds(trials, [method], groups, seed=seed, n_jobs=-1)["default"]
    n_falls = sum(trial.is_fall for trial in trials)
    hours = sum(trial.duration_s for trial in trials if not trial.is_fall) / S_PER_HOUR
    for name in names:
        for change in CHANGES[name]:
            with changed(change) as policy:
                seen = extracted() if name == "TAIL_S" else trials  # the scores are the same
                decided = outcomes(seen, found, policy, per_hour).values()
            n_flagged, n_false = sum(one.is_flagged for one in decided), sum(one.n_false_alarms for one in decided)
            delay_s = np.median([one.delay_s for one in decided if one.delay_s is not None])
            own = {**asdict(DEFAULT), **{key: getattr(CONSTANTS[key][0], key) for key in CONSTANTS}}
            is_default = all(own[key] == value for key, value in change.items())
            values = ", ".join(f"{value:g}" for value in change.values())
            yield (
                f"| {name} {values}{' (default)' if is_default else ''} | {n_flagged / n_falls:.3f} | {n_false} "
                f"| {n_false / hours:.2f} | {delay_s:.1f} |"
            )


def main() -> None:
    """Prints a Markdown table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=CHANGES, help="one setting alone; may be repeated", action="append")
    parser.add_argument("--per-hour", type=float, default=1.0, help="budget of false alarms (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the groups of people (default 0)")
    parser.add_argument("--ends", action="store_true", help="with the window at each recording's end")
    options = parser.parse_args()
    print("| setting | falls flagged | false alarms | an hour | median delay, s |\n|---|---|---|---|---|", flush=True)
    names = options.only or list(CHANGES)
    for row in rows(options.dataset, options.data, names, options.per_hour, options.seed, ends=options.ends):
        print(row, flush=True)


if __name__ == "__main__":
    main()
