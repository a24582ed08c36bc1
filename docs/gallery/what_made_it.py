"""What made the score: features of a flagged window and of an ordinary one, against the normal windows nearest to them.

    python docs/gallery/what_made_it.py --out what_made_it.svg
    python docs/gallery/what_made_it.py --dataset weda-fall --data weda-fall.zip

Robust z is how far a feature lies from the median of the 5 nearest windows learned from, over its usual spread. On top
is the feature that added most to the score; its z need not be the largest: evidence of a fall adds by itself. Needs the
extra `train`. Without a data set the wearers are simulated: what is seen then says nothing of people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from common import first_fall, options, people, save
from matplotlib.figure import Figure

from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.samples import NS_PER_S
from stream_occ.training import train


def main(argv: Sequence[str] | None = None) -> None:
    """Learns, scores the windows of a fall, and draws the five features that did most for two of them."""
    given = options(__doc__, "what_made_it.svg", argv)
    learned, held_out = people(given)
    model = train([learned]).model
    recording = first_fall(held_out)
    front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
    trial = extract_trial(recording, front_end)
    scores, contributions = model.judge(trial.X)
    ends_s = (trial.shown.t_end_ns - recording.block.t_ns.min()) / NS_PER_S
    ordinary = int(np.argsort(scores)[len(scores) // 2])  # the median window
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    for k, window in enumerate((int(np.argmax(scores)), ordinary)):
        names, z = zip(*contributions[window], strict=True)
        word = "flagged" if scores[window] > model.threshold else "not flagged"
        axes = figure.add_subplot(2, 1, k + 1)
        bars = axes.barh(names, z, color="#b3261e" if word == "flagged" else "#0b6e99")
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.set_title(
            f"{word}: window ending at {ends_s[window]:.1f} s, score {scores[window]:.3g}, "
            f"threshold {model.threshold:.3g}",
            fontsize=10,
        )
        axes.axvline(0, color="black", linewidth=0.8)
        axes.margins(x=0.15)
        axes.invert_yaxis()
    axes.set_xlabel("robust z against the nearest normal windows")
    save(figure, given)


if __name__ == "__main__":
    main()
