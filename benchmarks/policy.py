"""What each setting of the event engine is worth: python benchmarks/policy.py mobifall mobifall.zip

Development figures behind docs/results.md: falls flagged and false alarms of the whole pipeline at one false alarm an
hour on people held out, by the protocol of `stream-occ evaluate`. The default model is fitted and scored once; then one
setting of the policy is changed at a time, and the threshold is set anew for each. `--ends`: with the window more that
the service would look at where a recording ends, had the device fallen silent there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

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
CHANGES: dict[str, tuple[dict[str, float], ...]] = {
    "k of n": ({"k": 1, "n": 1}, {"k": 2, "n": 2}, {"k": 2, "n": 3}, {"k": 3, "n": 5}),
    "check": ({"check": True}, {"check": False}),
    "still_s": tuple({"still_s": value} for value in (0.5, 1.0, 2.0, 3.0, 5.0)),
    "still_acc_ms2": tuple({"still_acc_ms2": value} for value in (0.3, 0.5, 0.7, 1.0, 1.5)),
    "still_gyr_rads": tuple({"still_gyr_rads": value} for value in (0.2, 0.35, 0.5, 0.75, 1.0)),
    "posture_deg": tuple({"posture_deg": value} for value in (30.0, 45.0, 60.0, 75.0)),
    "check_s": tuple({"check_s": value} for value in (5.0, 10.0, 30.0, 60.0)),
    "merge_s": tuple({"merge_s": value} for value in (2.0, 6.0, 10.0)),
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


def rows(dataset: str, data: Path, per_hour: float, seed: int, *, ends: bool) -> Iterator[str]:
    """A table row for each setting."""
    [method], front_end = methods_of(["default"], load_training_config(None))
    with open_dataset(dataset, data) as opened:
        recordings = map(silenced, opened.iter_recordings()) if ends else opened.iter_recordings()
        trials = extract_trials(recordings, front_end, n_jobs=-1)
    trials = [shortened(trial) for trial in trials] if ends else trials
    groups = assign_groups(kinds_of_people(trials), seed=seed)
    found = score_folds(trials, [method], groups, seed=seed, n_jobs=-1)["default"]
    n_falls = sum(trial.is_fall for trial in trials)
    hours = sum(trial.duration_s for trial in trials if not trial.is_fall) / S_PER_HOUR
    for name, changes in CHANGES.items():
        for change in changes:
            policy = replace(DEFAULT, **change)  # type: ignore[arg-type]
            decided = outcomes(trials, found, policy, per_hour).values()
            n_flagged, n_false = sum(one.is_flagged for one in decided), sum(one.n_false_alarms for one in decided)
            delay_s = np.median([one.delay_s for one in decided if one.delay_s is not None])
            is_default = all(getattr(DEFAULT, key) == value for key, value in change.items())
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
    parser.add_argument("--per-hour", type=float, default=1.0, help="budget of false alarms (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the groups of people (default 0)")
    parser.add_argument("--ends", action="store_true", help="with the window at each recording's end")
    options = parser.parse_args()
    print("| setting | falls flagged | false alarms | an hour | median delay, s |\n|---|---|---|---|---|", flush=True)
    for row in rows(options.dataset, options.data, options.per_hour, options.seed, ends=options.ends):
        print(row, flush=True)


if __name__ == "__main__":
    main()
