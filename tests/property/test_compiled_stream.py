"""Resampling and filtering by compiled code: the numbers that numpy gives, to the bit, whatever the stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ import engines
from stream_occ.checkpoint import dump_state
from stream_occ.filtering import butter1_lowpass_sos, sos_filter, sos_initial_state
from stream_occ.pipeline import Pipeline
from stream_occ.resampling import StreamSettings
from tests.property.streams import block_of, cut, stamps
from tests.unit.test_filtering import designs
from tests.unit.toy_model import toy_model

pytest.importorskip("numba")


def by_both(task):
    """What the task gives by numpy and by compiled code."""
    try:
        found = []
        for engine in ("numpy", "compiled"):
            engines.select(engine)
            engines.warm()
            found.append(task())
        return found
    finally:
        engines.select("auto")


@given(
    stamps(),
    st.lists(st.integers(0, 160), max_size=6),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([None, 0.5, 12.5, 20.0]),
    st.booleans(),
)
@settings(max_examples=150)
def test_any_stream_gives_numpy_s_decisions_and_state(t_ns, points, reorder_s, cutoff_hz, is_clipped):
    """Jitter, doubles, bursts, holes and clocks that jump back, in messages of any size."""
    sos = None if cutoff_hz is None else butter1_lowpass_sos(cutoff_hz, 50.0)
    pipeline = Pipeline(toy_model(sos=sos), StreamSettings(reorder_s=reorder_s))

    def run():
        state, found = pipeline.initial(), []
        for piece in cut(block_of(t_ns, is_clipped=is_clipped), points):
            state, decisions, _ = pipeline.step(state, [piece], 0)
            found += decisions
        return found, dump_state(state)

    by_numpy, by_compiled = by_both(run)
    assert by_compiled == by_numpy


@pytest.mark.parametrize("name", designs())
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_filter_gives_numpy_s_bits(name, order):
    """Sections of the first and second order, pieces of any length, rows of any order in memory."""
    sos, x = designs()[name], np.asarray(np.random.default_rng(0).normal(size=(64, 6)), order=order)

    def run():
        state, found = sos_initial_state(sos, x[0]), b""
        for part in (x[:1], x[1:1], x[1:9], x[9:]):
            y, state = sos_filter(sos, part, state)
            found += y.tobytes() + state.tobytes()
        return found

    by_numpy, by_compiled = by_both(run)
    assert by_compiled == by_numpy
