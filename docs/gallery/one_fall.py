"""A fall on its way to an alarm: |a|, the score against the threshold, and the state of the event engine over time.

    python docs/gallery/one_fall.py --out one_fall.svg
    python docs/gallery/one_fall.py --dataset weda-fall --data weda-fall.zip

Needs the extra `train`. Without a data set the wearers are simulated: what is seen then says nothing of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from common import first_fall, options, people, save
from matplotlib.figure import Figure

from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2
from stream_occ.training import train

COLOURS = {"normal": "#cfe8d5", "suspected": "#fff3c4", "checking": "#ffe08a", "pending": "#ffb870", "alarm": "#f28b82"}
STEP_S = 0.25  # what comes in one message


def main(argv: Sequence[str] | None = None) -> None:
    """Learns, plays the recording to the pipeline message by message, and draws what it said."""
    given = options(__doc__, "one_fall.svg", argv)
    learned, held_out = people(given)
    pipeline = Pipeline(train([learned]).model)
    block = first_fall(held_out).block
    t_s = (block.t_ns - block.t_ns[0]) / NS_PER_S
    message = (t_s // STEP_S).astype(int)
    state, decisions, alerts = pipeline.initial(), [], []
    for k in np.unique(message):
        rows = message == k
        part = replace(block, t_ns=block.t_ns[rows], acc_ms2=block.acc_ms2[rows], gyr_rads=block.gyr_rads[rows])
        state, decided, changed = pipeline.step(state, [part], int(part.t_ns[-1]))
        decisions += decided
        alerts += changed
    size_g = np.linalg.norm(block.acc_ms2, axis=1) / STANDARD_GRAVITY_MS2
    figure = Figure(figsize=(9, 5), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1))
    top.plot(np.unique(message) * STEP_S, [size_g[message == k].max() for k in np.unique(message)], linewidth=1)
    top.set_ylabel("largest |a|\nin 0.25 s, g")
    middle.plot([(d.t_end_ns - block.t_ns[0]) / NS_PER_S for d in decisions], [d.score for d in decisions])
    middle.axhline(pipeline.model.threshold, color="#b3261e", linestyle="--", label="threshold")
    middle.set_ylabel("score")
    middle.legend(loc="lower left")
    changes = [(0.0, "normal"), *(((a.t_ns - block.t_ns[0]) / NS_PER_S, a.state) for a in alerts)]
    for (start_s, name), (stop_s, _) in zip(changes, [*changes[1:], (float(t_s[-1]), "")], strict=True):
        bottom.axvspan(start_s, stop_s, color=COLOURS.get(name, "#ddd"), label=name)
    bottom.set(ylabel="state", yticks=[], xlabel="seconds", xlim=(0, t_s[-1]))
    handles = {label: handle for handle, label in zip(*bottom.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, ncols=len(handles), loc="outside upper right", title="state")
    save(figure, given)


if __name__ == "__main__":
    main()
