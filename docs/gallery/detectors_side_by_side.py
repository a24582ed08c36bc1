"""Three detectors on one recording: the default, the papers' ensemble of ratios, and kernel ridge regression.

    python docs/gallery/detectors_side_by_side.py --out detectors_side_by_side.svg
    python docs/gallery/detectors_side_by_side.py --dataset weda-fall --data weda-fall.zip

All learn the same windows and features; each has the threshold of its own rule (docs/training.md). One recording shows
how scores behave, not which detector is best: see docs/results.md. Needs the extra `train`. Without a data set the
wearers are simulated: what is seen then says nothing of people.
"""

from __future__ import annotations

from collections.abc import Sequence

from common import first_fall, options, people, save
from matplotlib.figure import Figure

from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.samples import NS_PER_S
from stream_occ.training import TrainingConfig, train

DETECTORS = {"fused": "the default", "11NN-RP": "ratios of nearest neighbours", "KOC": "kernel ridge regression"}


def main(argv: Sequence[str] | None = None) -> None:
    """Learns three times, and draws each score over the same fall."""
    given = options(__doc__, "detectors_side_by_side.svg", argv)
    learned, held_out = people(given)
    recording = first_fall(held_out)
    t0_ns = int(recording.block.t_ns.min())
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    panels = figure.subplots(len(DETECTORS), 1, sharex=True)
    for axes, (name, words) in zip(panels, DETECTORS.items(), strict=True):
        model = train([learned], TrainingConfig.model_validate({"detector": {"name": name}})).model
        front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
        trial = extract_trial(recording, front_end)
        ends_s = (trial.shown.t_end_ns - t0_ns) / NS_PER_S
        scores = model.score_features(trial.X)
        n_flagged = int((scores > model.threshold).sum())
        axes.plot(ends_s, scores)
        axes.axhline(model.threshold, color="#b3261e", linestyle="--", label="threshold")
        axes.set_title(f"{name}: {words}, {n_flagged} of {len(scores)} windows flagged", fontsize=10)
        axes.set_ylabel("score")
        if recording.fall_interval_ns is not None:
            start_s, stop_s = ((t_ns - t0_ns) / NS_PER_S for t_ns in recording.fall_interval_ns)
            axes.axvspan(start_s, stop_s, color="#ffb870", label="the fall")
    panels[0].legend(loc="upper left")
    panels[-1].set_xlabel("end of the window, seconds")
    save(figure, given)


if __name__ == "__main__":
    main()
