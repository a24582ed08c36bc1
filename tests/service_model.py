"""A small real model for service tests (synthetic walking, scored by nearest neighbours) and streams that fit it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_occ.artifacts import save_model
from stream_occ.codecs import load_codec
from stream_occ.features import design_lowpass, load
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.scoring import Model, Scaler
from stream_occ.scoring.ocnn_ensemble import FrozenScorer
from stream_occ.windowing import cut_windows

RATE_HZ = 50.0
WINDOW_S = 1.0
HOP_S = 0.5


def walking(device_id: str, n: int, *, t0_ns: int, seed: int = 0, first: int = 0) -> SampleBlock:
    """n samples at 50 Hz of a person who walks; `first` continues an earlier block."""
    rng = np.random.default_rng([seed, first])
    k = np.arange(first, first + n)
    t_s = k / RATE_HZ
    phase = 2 * np.pi * 1.8 * t_s
    acc = np.stack([0.8 * np.sin(phase), 0.6 * np.cos(phase), 9.81 + 2.0 * np.sin(2 * phase)], axis=1)
    gyr = np.stack([0.5 * np.sin(phase), 0.3 * np.cos(phase), 0.2 * np.sin(2 * phase)], axis=1)
    t_ns = t0_ns + np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64)
    return SampleBlock(device_id, t_ns, acc + 0.1 * rng.normal(size=(n, 3)), gyr + 0.03 * rng.normal(size=(n, 3)))


def tumbling(device_id: str, n: int, *, t0_ns: int, first: int = 0) -> SampleBlock:
    """n samples far from walking: hard knocks and fast rotation."""
    block = walking(device_id, n, t0_ns=t0_ns, first=first)
    rng = np.random.default_rng(7)
    return SampleBlock(
        device_id,
        block.t_ns,
        block.acc_ms2 + 25.0 * rng.normal(size=(n, 3)),
        block.gyr_rads + 5.0 * rng.normal(size=(n, 3)),
    )


def make_model(folder: Path) -> Path:
    """Writes the model file and returns its path."""
    features = load("khan31r")
    sos = design_lowpass(features, RATE_HZ)
    stream = walking("train", 10_000, t0_ns=0)
    X = features.extract(cut_windows(stream, rate_hz=RATE_HZ, window_s=WINDOW_S, hop_s=HOP_S, sos=sos))
    low, high = X.min(axis=0), X.max(axis=0)
    scaler = Scaler("min-max", low, np.where(high > low, high - low, 1.0))
    rows = scaler.transform(X)
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    nearest = distance.min(axis=1)
    scorer = FrozenScorer(
        rows,
        maps=np.eye(rows.shape[1])[None],
        own_distance=nearest[None],
        n_neighbors=np.array([1]),
        theta=np.array([1.0]),
        floor=np.array([float(np.median(nearest))]),
        combine="single",
    )
    model = Model("", features, RATE_HZ, WINDOW_S, HOP_S, sos, scaler, scorer, 3.0, {"seed": 0})
    path = folder / "test.occ"
    save_model(model, path, self_test_X=X[:8])
    return path


def payload(block: SampleBlock) -> bytes:
    """The block as a JSON message."""
    return load_codec("json").encode(block)
