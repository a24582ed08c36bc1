"""Windows overlap by nine tenths: samples are held once, with a filter twice, and a device keeps a window of them."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from stream_occ.features import design_lowpass, load
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.pipeline import Pipeline, PipelineState
from stream_occ.resampling import SEEN_SAMPLES, ResamplerState, StreamSettings, resample
from stream_occ.samples import SampleBlock
from stream_occ.windowing import CutterState, WindowShape, closing_window, cut_windows, iter_windows, push_chunk
from tests.unit.toy_model import toy_model

RATE_HZ = 50.0
SHAPE = WindowShape(RATE_HZ, 225, 25)
SAMPLE_BYTES = 6 * 8
STEP_NS = 20_000_000


def block_of(n: int, first: int = 0) -> SampleBlock:
    """n samples of one device at 50 Hz, from the `first` one on."""
    rng = np.random.default_rng(first)
    t_ns = 1_700_000_000_000_000_000 + STEP_NS * np.arange(first, first + n)
    return SampleBlock("w1", t_ns, rng.normal(size=(n, 3)), rng.normal(size=(n, 3)))


def arrays_of(state: Any) -> Iterator[np.ndarray]:
    """All arrays that a state holds, whatever it is made of."""
    if isinstance(state, np.ndarray):
        yield state
    elif is_dataclass(state):
        for field in fields(state):
            yield from arrays_of(getattr(state, field.name))
    elif isinstance(state, dict):
        for value in state.values():
            yield from arrays_of(value)
    elif isinstance(state, (tuple, list)):
        for value in state:
            yield from arrays_of(value)


def held_bytes(arrays: Iterator[np.ndarray]) -> int:
    """What arrays keep in memory: of a view, all that it is a view of."""
    owners = {}
    for array in arrays:
        owner: Any = array
        while getattr(owner, "base", None) is not None:
            owner = owner.base
        owners[id(owner)] = owner
    return sum(owner.nbytes for owner in owners.values())


def test_windows_of_a_stream_are_views_of_the_same_samples() -> None:
    """A thousand windows that start one sample apart hold each sample once; copied they would hold it 225 times."""
    shape = WindowShape(RATE_HZ, 225, 1)
    _, [chunk] = resample(ResamplerState(), block_of(1224), rate_hz=RATE_HZ, settings=StreamSettings())
    sos = butter1_lowpass_sos(10.0, RATE_HZ)
    state, batch = push_chunk(CutterState(), chunk, device_id="w1", shape=shape, sos=sos)
    assert batch.signals.shape == (1000, 6, 225)
    assert held_bytes(iter([batch.signals])) == 1224 * SAMPLE_BYTES
    assert held_bytes(iter([state.signals])) == 225 * SAMPLE_BYTES  # and lets go of the others
    assert not np.shares_memory(state.signals, batch.signals)


def test_cutting_and_extracting_a_recording_takes_memory_for_its_samples() -> None:
    """At hop 1 they are 80 MB of windows: less than 10 MB is taken, whatever the recording's length."""
    block, shape, feature_set = block_of(8_000), WindowShape(RATE_HZ, 225, 1), load("fall31")
    feature_set.extract(cut_windows(block_of(300), rate_hz=RATE_HZ, window_s=4.5, hop_s=0.5))
    tracemalloc.start()
    try:
        rows = [feature_set.extract(batch) for batch in iter_windows(block, shape) if len(batch)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    windows_bytes = sum(map(len, rows)) * 225 * SAMPLE_BYTES
    assert windows_bytes > 80e6
    assert peak < 10e6


@pytest.mark.parametrize("is_filtered", [False, True])
def test_a_device_keeps_one_window_of_samples(is_filtered: bool) -> None:
    """After a minute of small messages: a window and a hop at most, and what tells the last 1024 samples sent twice.

    With a filter, as the default has one, twice: filtered and as they came.
    """
    model = replace(toy_model(), window_s=5.0, hop_s=0.5)
    if is_filtered:
        model = replace(model, sos=design_lowpass(load("fall31"), RATE_HZ))
    pipeline, state = Pipeline(model), PipelineState()
    shape = pipeline.shape
    assert (shape.n_samples, shape.n_hop, model.rate_hz) == (250, 25, RATE_HZ)
    for number in range(300):
        block = block_of(10, first=10 * number)
        state, *_ = pipeline.step(state, [block], int(block.t_ns[-1]))
    [device] = state.devices.values()
    copies = 2 if is_filtered else 1
    marks = 2 * 8  # beside each sample: what is held, and how many came
    a_window = (shape.n_samples + shape.n_hop) * (copies * SAMPLE_BYTES + marks)
    assert copies * shape.n_samples * SAMPLE_BYTES < held_bytes(arrays_of(device.cutter)) <= a_window
    assert held_bytes(arrays_of(device)) <= a_window + SEEN_SAMPLES * 8 + 2048


def test_the_closing_window_is_one_copy() -> None:
    """It outlives the state that it is cut from: a view would keep nothing less."""
    _, [chunk] = resample(ResamplerState(), block_of(240), rate_hz=RATE_HZ, settings=StreamSettings())
    state, _ = push_chunk(CutterState(), chunk, device_id="w1", shape=SHAPE, sos=None)
    last = closing_window(state, device_id="w1", shape=SHAPE)
    assert len(last) == 1
    assert held_bytes(iter([last.signals])) <= 240 * SAMPLE_BYTES
    np.testing.assert_array_equal(last.signals[0], chunk.values[-225:].T)
