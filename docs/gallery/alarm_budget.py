"""What a threshold costs: alarms in normal life against falls that call somebody, with the whole event engine between.

    python docs/gallery/alarm_budget.py --out alarm_budget.svg
    python docs/gallery/alarm_budget.py --dataset weda-fall --data weda-fall.zip

The hours are of people held out. A threshold that is read off here was chosen by them: it needs hours of others before
it promises anything (docs/alarm-budget.md). Needs the extra `train`. Without a data set the wearers are simulated: what
is seen then says nothing of people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common import Recordings, options, people, save
from matplotlib.figure import Figure

from stream_occ.alarm_budget import Watched, claim, claim_in_words, lowest_threshold, raised_ns
from stream_occ.evaluation.budget import read_evidence
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.events import EventPolicy
from stream_occ.training import train

MAX_THRESHOLDS = 100


def main(argv: Sequence[str] | None = None) -> None:
    """Learns, then counts alarms and falls told at each threshold."""
    given = options(__doc__, "alarm_budget.svg", argv)
    learned, held_out = people(given, n_lives=3)
    model = train([learned]).model
    policy = EventPolicy().for_windows(model.window_s, model.hop_s)
    evidence = read_evidence(Recordings(held_out), model)  # normal recordings alone
    front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
    trials = [extract_trial(each, front_end) for each in held_out if each.is_fall]
    falls = [Watched(each.subject, model.score_features(each.X), each.shown, 0.0) for each in trials if len(each.X)]
    marks = {"of the model": model.threshold, "no alarm here": lowest_threshold(evidence.watched, policy, 0)}
    levels = np.unique(np.concatenate([one.scores for one in [*evidence.watched, *falls]]))
    levels = levels[levels.size // 2 :]
    thresholds = np.union1d(levels[:: 1 + levels.size // MAX_THRESHOLDS], list(marks.values()))
    alarms = [sum(len(raised_ns(one, at, policy)) for one in evidence.watched) for at in thresholds]
    told = [100 * np.mean([bool(raised_ns(one, at, policy)) for one in falls]) for at in thresholds]
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.step(thresholds, alarms, where="post")
    top.set_ylabel(f"false alarms\nin {evidence.hours:.2f} h")
    bottom.step(thresholds, told, where="post", color="#0b6e99")
    bottom.set(ylabel=f"% of {len(falls)} falls\nthat call somebody", xlabel="threshold", ylim=(-5, 105))
    for axes in (top, bottom):
        for (name, at), style in zip(marks.items(), ("--", ":"), strict=True):
            axes.axvline(at, color="#b3261e", linestyle=style, label=f"{name}: {at:.3g}")
    top.legend(loc="upper right")
    found = claim(evidence.watched, model.threshold, policy, 1.0, datasets=evidence.datasets)
    print("\n".join(f"{name}: {words}" for name, words in claim_in_words(found.to_json())))
    save(figure, given)


if __name__ == "__main__":
    main()
