"""Falls in which the device falls silent: python benchmarks/silence.py model.occ mobifall mobifall.zip

Recorded falls are cut off so many seconds after their largest |a|, at seven phases of the hop, and the pipeline is
ticked from there: how many end as an alarm. Recordings begin a second or two before the fall, too late for a window, so
their first second is played back and forth before them for LEAD_S.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ.artifacts import load_model
from stream_occ.datasets import open_dataset
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, Recording, SampleBlock

AFTER_S = (0.02, 0.1, 0.2, 0.4, 0.5, 1.0)
N_PHASES = 7
SILENCE_S = 120
LEAD_S = 6


def is_told(pipeline: Pipeline, recording: Recording, after_s: float, phase_s: float) -> bool:
    """Whether an alarm comes of the recording from phase_s on to after_s behind its largest |a|."""
    block = led_in(recording.block)
    t_ns = block.t_ns - block.t_ns[0]
    peak_ns = int(t_ns[np.argmax((block.acc_ms2**2).sum(axis=1))])
    kept = (t_ns >= phase_s * NS_PER_S) & (t_ns <= peak_ns + after_s * NS_PER_S)
    part = SampleBlock("d", t_ns[kept], block.acc_ms2[kept], block.gyr_rads[kept])
    end_ns = int(part.t_ns[-1])
    state, _, _ = pipeline.step(pipeline.initial(), [], 0)
    state, _, _ = pipeline.step(state, [part], end_ns)
    for second in range(1, SILENCE_S):
        state, _, alerts = pipeline.step(state, [], end_ns + second * NS_PER_S)
        if any(alert.state == "alarm" for alert in alerts):
            return True
    return False


def led_in(block: SampleBlock) -> SampleBlock:
    """The block with its first second before it, backwards and forwards in turn, LEAD_S seconds in all."""
    t_ns = block.t_ns - block.t_ns[0]
    n = int(np.searchsorted(t_ns, NS_PER_S))
    back_and_forth = [np.arange(n) if i % 2 else np.arange(n)[::-1] for i in range(LEAD_S)]
    rows = np.concatenate([*back_and_forth, np.arange(len(t_ns))])
    step_ns = int(t_ns[n - 1] // (n - 1))
    stamps = np.concatenate([np.arange(LEAD_S * n) * step_ns, LEAD_S * n * step_ns + t_ns])
    return SampleBlock(block.device_id, stamps, block.acc_ms2[rows], block.gyr_rads[rows])


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=12, help="one fall in so many (default 12)")
    options = parser.parse_args()
    pipeline = Pipeline(load_model(options.model))
    with open_dataset(options.dataset, options.data) as opened:
        falls = [recording for recording in opened.iter_recordings() if recording.is_fall][:: options.every]
    hop_s = pipeline.model.hop_s
    print("| silent so long after the peak | alarms |\n|---|---|", flush=True)
    for after_s in AFTER_S:
        told = [is_told(pipeline, one, after_s, hop_s * i / N_PHASES) for one in falls for i in range(N_PHASES)]
        print(f"| {after_s:g} s | {sum(told)} of {len(told)} |", flush=True)


if __name__ == "__main__":
    main()
