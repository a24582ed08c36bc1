"""Strategies for hostile sample streams and for ways to cut them."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from stream_occ.samples import SampleBlock

MS = 1_000_000


@st.composite
def stamps(draw, max_size=160):
    """Stamps that jitter, repeat, jump back, leave holes: ns, from 0 on."""
    steps = draw(
        st.lists(
            st.one_of(
                st.integers(15, 25),  # jitter round 50 Hz
                st.sampled_from([0, 0, 1, 2, 100]),  # doubles and bursts
                st.sampled_from([-20, -60, -700]),  # stragglers and jumps back
                st.sampled_from([499, 500, 501, 2000]),  # holes around gap_s
            ),
            min_size=1,
            max_size=max_size,
        )
    )
    return np.cumsum(np.array(steps, dtype=np.int64)) * MS


def block_of(t_ns, seed=0, device_id="dev", is_clipped=False):
    """A body in motion at the given stamps: gravity, swings of random phase, a little noise; is_clipped: one axis goes
    beyond its full scale."""
    rng, t_s = np.random.default_rng(seed), np.asarray(t_ns)[:, None] / 1e9
    values = 0.6 * np.sin(2 * np.pi * (rng.uniform(0.5, 2.0, 6) * t_s + rng.uniform(size=6)))
    values[:, 2] += 9.8
    values += rng.normal(scale=0.01, size=values.shape)
    if is_clipped:
        values[:, 1] = np.clip(30 * np.sin(2 * np.pi * np.asarray(t_ns) / 1e9), -20, 20)
    return SampleBlock(device_id, np.asarray(t_ns, dtype=np.int64), values[:, :3], values[:, 3:])


def cut(block, points):
    """The block cut at the given row numbers, in order; empty pieces are left in."""
    bounds = [0, *sorted(min(p, len(block)) for p in points), len(block)]
    return [
        SampleBlock(block.device_id, block.t_ns[a:b], block.acc_ms2[a:b], block.gyr_rads[a:b])
        for a, b in pairwise(bounds)
    ]
