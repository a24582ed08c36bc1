"""Which rule for the threshold keeps an alarm budget on people it was not set on: python benchmarks/tails.py --json OUT

MobiFall and WEDA-FALL (`--mobifall`, `--weda-fall`), the default detector, people held out by the very folds of
`stream-occ evaluate`, their groups drawn anew for each of `--seeds`. What a rule sees are episode levels of held-out
people: the k-th level of a recording is the score below which the engine raises k alarms there, so the engine itself
declusters. L_1 >= L_2 >= ... are the levels of all held-out recordings together, H their hours, b the budget an hour.

`count`: the product's rule, the lowest threshold with at most floor(b H) alarms. `interpolated`: at b H alarms, linear
between L_k and L_(k+1), since others like these raise k alarms in H hours on average above L_k; none where b H < 1.
`conformal`: the level of rank floor(a (n + 1)) among the highest ones of n recordings, a = b times a recording's mean
hours: exact where recordings are exchangeable; none where the rank is 0. `tail`: a generalised Pareto distribution
(maximum likelihood) on the `--n-tail` highest levels, solved for b. Without a threshold nothing is flagged.

Assumptions: people alike (counts against a multinomial by hours, 10,000 draws; Kruskal-Wallis on recordings' first
levels), the tail Pareto (Anderson-Darling, parametric bootstrap; Kolmogorov-Smirnov on people not fitted), its shape
the same at other numbers of levels. Eight minutes for both sets on two cores that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from stream_occ.alarm_budget import HOURS_PER_DAY, Watched, alarms_within, lowest_threshold, raised_ns
from stream_occ.datasets import open_dataset
from stream_occ.evaluation.alarms import outcome, watched
from stream_occ.evaluation.extraction import extract_trials
from stream_occ.evaluation.presets import default_method
from stream_occ.evaluation.protocol import Fold, Trial, assign_groups, kinds_of_people
from stream_occ.evaluation.report import score_folds
from stream_occ.events import EventPolicy
from stream_occ.samples import FloatArray
from stream_occ.training.config import TrainingConfig

BUDGETS = (1 / HOURS_PER_DAY, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TAIL_SIZES = (15, 20, 30, 40, 60)
LOWEST_QUANTILE = 0.95  # of window scores: far below any level that a rule looks at
N_DRAWS = 10_000
N_BOOTSTRAP = 99
POLICY = EventPolicy()


def episode_levels(one: Watched, lowest: float) -> list[float]:
    """Scores, highest first, below each of which a threshold raises one alarm more; none below `lowest`."""
    found: list[float] = []
    levels = np.unique(one.scores)
    for at in range(levels.size - 1, 0, -1):
        if levels[at] < lowest:
            break
        n_alarms = len(raised_ns(one, float(levels[at - 1]), POLICY))
        found += [float(levels[at])] * (n_alarms - len(found))
    return found


class HeldOut:
    """Held-out normal recordings of a fold, as each rule sees them."""

    def __init__(self, trials: Sequence[Trial], fold: Fold, n_tail: int) -> None:
        self.seen = [watched(trials[i], scores) for i, scores in fold.held_out.items()]
        self.hours = sum(one.hours for one in self.seen)
        lowest = float(np.quantile(np.concatenate([one.scores for one in self.seen]), LOWEST_QUANTILE))
        self.levels_of = [episode_levels(one, lowest) for one in self.seen]
        self.first = np.array([own[0] if own else -np.inf for own in self.levels_of])
        self.levels = np.sort([level for own in self.levels_of for level in own])[::-1]
        self.tail = GeneralisedPareto(self.levels, n_tail)

    def thresholds(self, per_hour: float) -> dict[str, float]:
        """Threshold of each rule, infinite where it has none."""
        expected = per_hour * self.hours
        rank = int(per_hour * self.hours / len(self.seen) * (len(self.seen) + 1))
        ranks = np.arange(1, self.levels.size + 1)
        return {
            "count": lowest_threshold(self.seen, POLICY, alarms_within(HOURS_PER_DAY * per_hour, self.hours)),
            "interpolated": float(np.interp(expected, ranks, self.levels)) if expected >= 1 else np.inf,
            "conformal": float(np.sort(self.first)[::-1][rank - 1]) if rank else np.inf,
            "tail": self.tail.level(expected),
        }


class GeneralisedPareto:
    """Tail of the n highest levels above the next one."""

    def __init__(self, levels: FloatArray, n: int) -> None:
        self.n, self.floor = min(n, levels.size - 1), float(levels[min(n, levels.size - 1)])
        self.excesses = levels[: self.n] - self.floor
        self.shape, _, self.scale = stats.genpareto.fit(self.excesses, floc=0)

    def level(self, expected: float) -> float:
        """The level that so many of the n pass on average."""
        return self.floor + float(stats.genpareto.isf(min(1.0, expected / self.n), self.shape, scale=self.scale))


def people_alike(trials: Sequence[Trial], levels: dict[int, list[float]], per_hour: float) -> dict[str, float]:
    """Dispersion of people's alarms at the level that so many an hour pass, and of their recordings' first levels."""
    people = sorted({trials[i].subject for i in levels})
    hours = np.array([sum(trials[i].duration_s for i in levels if trials[i].subject == own) for own in people]) / 3600
    ordered = np.sort([level for own in levels.values() for level in own])[::-1]
    rank = min(int(per_hour * hours.sum()), ordered.size)
    at = ordered[rank - 1]
    counts = np.array(
        [sum(level >= at for i in levels if trials[i].subject == own for level in levels[i]) for own in people]
    )
    mean = counts.sum() * hours / hours.sum()

    def dispersion(n: Any) -> Any:
        return ((n - mean) ** 2 / mean).sum(axis=-1) / (len(people) - 1)

    drawn = np.random.default_rng(0).multinomial(counts.sum(), hours / hours.sum(), N_DRAWS)
    found = float(dispersion(counts))
    return {
        "n_alarms": int(counts.sum()),
        "largest_share": float(counts.max() / counts.sum()),
        "n_people_without": int((counts == 0).sum()),
        "dispersion": found,
        "p": float((1 + (dispersion(drawn) >= found - 1e-9).sum()) / (1 + N_DRAWS)),
    }


def first_levels_alike(trials: Sequence[Trial], levels: dict[int, list[float]]) -> float:
    """p of Kruskal-Wallis: recordings' first levels (none: lowest) come from one distribution in all people."""
    of: dict[str, list[float]] = {}
    for i, own in levels.items():
        of.setdefault(trials[i].subject, []).append(own[0] if own else -1e9)
    return float(stats.kruskal(*of.values()).pvalue)


def tail_fits(levels: FloatArray, seed: int) -> list[dict[str, float]]:
    """Shape, and p of Anderson-Darling by a parametric bootstrap, at each number of levels."""
    rng, found = np.random.default_rng(seed), []
    for n in TAIL_SIZES:
        if n >= levels.size:
            break
        tail = GeneralisedPareto(levels, n)
        test = stats.goodness_of_fit(
            stats.genpareto, tail.excesses, known_params={"loc": 0}, statistic="ad", n_mc_samples=N_BOOTSTRAP, rng=rng
        )
        drawn = rng.choice(tail.excesses, (N_BOOTSTRAP, n))
        shapes = [stats.genpareto.fit(own, floc=0)[0] for own in drawn]
        low, high = np.quantile(shapes, [0.025, 0.975])
        found.append({"n": n, "shape": tail.shape, "low": low, "high": high, "p": float(test.pvalue)})
    return found


def one_seed(name: str, trials: list[Trial], method: Any, seed: int, n_tail: int) -> dict[str, Any]:
    """Alarms and falls flagged by budget and rule, and the tests, with the groups of one seed."""
    groups = assign_groups(kinds_of_people(trials), seed=seed)
    found = score_folds(trials, [method], groups, seed=seed, n_jobs=2)[method.key]
    keys = [f"{budget:g}" for budget in BUDGETS]
    tally: dict[str, dict[str, list[int]]] = {key: {} for key in keys}
    tests: dict[str, list[Any]] = {"people": [], "first_levels_p": [], "tail": [], "other_people_p": []}
    for fold in found:
        print(f"{name}: seed {seed}, group {fold.group + 1} of {len(found)}", flush=True)
        held = HeldOut(trials, fold, n_tail)
        levels = dict(zip(fold.held_out, held.levels_of, strict=True))
        tests["people"].append({f"{rate:g}": people_alike(trials, levels, rate) for rate in (4.0, 16.0)})
        tests["first_levels_p"].append(first_levels_alike(trials, levels))
        if fold.group == 0:  # the folds share most of their people, and the bootstrap is the longest part
            tests["tail"].append(tail_fits(held.levels, seed))
        tested = [watched(trials[i], own) for i, own in fold.tested.items() if not trials[i].is_fall]
        beyond = np.array([v for one in tested for v in episode_levels(one, held.tail.floor) if v > held.tail.floor])
        if beyond.size >= 5:
            own = stats.kstest(beyond - held.tail.floor, stats.genpareto(held.tail.shape, scale=held.tail.scale).cdf)
            tests["other_people_p"].append(float(own.pvalue))
        for key, budget in zip(keys, BUDGETS, strict=True):
            for rule, threshold in held.thresholds(budget).items():
                own = tally[key].setdefault(rule, [0, 0, 0])
                own[2] += not np.isfinite(threshold)
                for i, scores in fold.tested.items():
                    what = outcome(trials[i], scores, threshold, POLICY)
                    own[1] += what.is_flagged
                    own[0] += 0 if trials[i].is_fall else what.n_false_alarms
    return {"tally": tally, "tests": tests}


def summary(trials: list[Trial], seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; the interval is that of one count, since all seeds share people and recordings."""
    hours = sum(trial.duration_s for trial in trials if not trial.is_fall) / 3600
    n_falls = sum(trial.is_fall for trial in trials)
    rows = []
    for budget in BUDGETS:
        for rule in ("count", "interpolated", "conformal", "tail"):
            own = np.array([seed["tally"][f"{budget:g}"][rule] for seed in seeds])
            n, asked = float(own[:, 0].mean()), budget * hours
            rows.append(
                {
                    "per_hour": budget,
                    "rule": rule,
                    "alarms": own[:, 0].tolist(),
                    "asked_alarms": asked,
                    "ratio": n / asked,
                    "ratio_low": float(stats.gamma.ppf(0.025, n)) / asked if n else 0.0,
                    "ratio_high": float(stats.gamma.ppf(0.975, n + 1)) / asked,
                    "sensitivity": float(own[:, 1].mean() / n_falls),
                    "folds_without_threshold": int(own[:, 2].sum()),
                }
            )
    return {"hours": hours, "n_falls": n_falls, "n_folds": 5 * len(seeds), "rows": rows, "seeds": seeds}


def main() -> None:
    """Runs both sets, prints a row for each budget and rule, writes all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("STREAM_OCC_DATA", "../shared/data"))
    parser.add_argument("--mobifall", type=Path, default=data / "mobifall.zip", metavar="PATH")
    parser.add_argument("--weda-fall", type=Path, default=data / "weda-fall.zip", metavar="PATH")
    parser.add_argument("--only", choices=["mobifall", "weda-fall"])
    parser.add_argument("--seeds", type=int, default=5, help="draws of the groups (default 5)")
    parser.add_argument("--n-tail", type=int, default=30, help="levels that the tail is fitted on (default 30)")
    parser.add_argument("--json", type=Path, metavar="PATH")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for name, path in (("mobifall", options.mobifall), ("weda-fall", options.weda_fall)):
        if options.only not in (None, name):
            continue
        method, front_end = default_method(TrainingConfig().resolved())
        with open_dataset(name, path) as opened:
            trials = extract_trials(opened.iter_recordings(), front_end, n_jobs=2)
        seeds = [one_seed(name, trials, method, seed, options.n_tail) for seed in range(options.seeds)]
        report[name] = summary(trials, seeds)
        for row in report[name]["rows"]:
            print(
                f"{name} | {row['per_hour']:.3g} | {row['rule']:12s} | {row['ratio']:.2f} "
                f"({row['ratio_low']:.2f} to {row['ratio_high']:.2f}) | {row['alarms']} of {row['asked_alarms']:.2f} | "
                f"{row['sensitivity']:.3f} | none in {row['folds_without_threshold']}",
                flush=True,
            )
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
