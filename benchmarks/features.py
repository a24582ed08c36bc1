"""Time of features, JSON and the filter, by numpy and compiled, beside naive code: python benchmarks/features.py

Prints JSON: microseconds a window of 250 samples x 6 (5 s at 50 Hz) alone and in batches, by each engine, medians over
rounds in which ours and the naive loop take turns; microseconds a message of 50 samples to a block, checked and in SI
units, beside json with numpy, which checks nothing; and microseconds a block for the stream's low-pass beside
scipy.signal, and a message on its way to windows. `times_naive`, `times_json_numpy`: medians over rounds of one time
over the other.
All is CPU time of the one thread: on an idle machine that is wall-clock time, on a shared one it leaves out the wait
for a core (a busy sibling core still shows).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy
from scipy import signal, stats

from stream_occ import engines
from stream_occ.bench.devices import walking
from stream_occ.codecs import load_codec
from stream_occ.features import load
from stream_occ.filtering import butter1_lowpass_sos, sos_filter, sos_initial_state
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, DeviceProfile, FloatArray, SampleBlock
from stream_occ.windowing import CutterState, WindowBatch, WindowShape, push_chunk

RATE_HZ = 50.0
N_SAMPLES = 250
BATCHES = (1, 128, 4096)
ENGINES = ("numpy", "compiled") if engines.has_numba() else ("numpy",)
N_MESSAGE = 50
FILTER_BLOCKS = (5, 25, 50, 15_000)  # messages, and 5 min at 50 Hz
MESSAGES = (5, 10, 25, 50)
N_STREAM = 3_000
N_NAIVE = 32  # windows in a naive round: its time a window does not depend on how many there are


def naive_features(window: FloatArray) -> list[float]:
    """One window, feature by feature, as one writes it first with numpy and scipy."""
    acc, gyr = window[:3], window[3:]
    norms = [np.linalg.norm(acc, axis=0), np.linalg.norm(gyr, axis=0)]
    values = [np.mean(x) for x in (*acc, norms[0], *gyr, norms[1])]
    for statistic in (np.max, np.min, np.std, stats.iqr):
        values += [statistic(x) for x in norms]
    values += [np.mean(np.sum(np.abs(xyz), axis=0)) for xyz in (acc, gyr)]
    values += [_naive_entropy(x) for x in norms]
    values += [_naive_energy(x) for x in norms]
    for xyz in (acc, gyr):
        values += [np.corrcoef(xyz[i], xyz[j])[0, 1] for i, j in ((0, 1), (0, 2), (1, 2))]
    values += [np.mean(np.abs(np.diff(x))) * RATE_HZ for x in norms]
    values.append(np.corrcoef(norms[0], norms[1])[0, 1])
    return [float(value) for value in values]


def _naive_power(x: FloatArray) -> FloatArray:
    power: FloatArray = np.abs(np.fft.rfft(x - np.mean(x)))[1:] ** 2
    return power


def _naive_entropy(x: FloatArray) -> float:
    power = _naive_power(x)
    return float(stats.entropy(power / np.sum(power)) / np.log(len(power)))


def _naive_energy(x: FloatArray) -> float:
    power = _naive_power(x)
    nyquist = power[-1] if len(x) % 2 == 0 else 0.0
    return float((2 * np.sum(power) - nyquist) / len(x) ** 2)


def microseconds(call: Callable[[], object], least_s: float = 0.05) -> float:
    """CPU time of a call, averaged over as many as fill least_s."""
    n, elapsed = 0, 0.0
    start = time.thread_time()
    while elapsed < least_s:
        call()
        n += 1
        elapsed = time.thread_time() - start
    return 1e6 * elapsed / n


def rounds_of(calls: dict[str, tuple[str, Callable[[], object]]], n_rounds: int) -> list[dict[str, float]]:
    """Microseconds of calls, each by an engine, in rounds in which they take turns: a busy machine slows all alike."""

    def timed(engine: str, call: Callable[[], object]) -> float:
        engines.select(engine)
        engines.warm()
        call()
        return microseconds(call)

    return [{name: timed(*call) for name, call in calls.items()} for _ in range(n_rounds)]


def side_by_side(calls: dict[str, Callable[[], object]], n_rounds: int) -> dict[str, float]:
    """Medians of `rounds_of`, by numpy."""
    rounds = rounds_of({name: ("numpy", call) for name, call in calls.items()}, n_rounds)
    return {name: statistics.median(times[name] for times in rounds) for name in calls}


def bench_features(n_rounds: int, seed: int) -> dict[str, object]:
    """Microseconds a window, ours in batches and naive, and the largest difference between the two."""
    rng = np.random.default_rng(seed)
    signals = rng.normal(size=(max(BATCHES), 6, N_SAMPLES)) + np.array([0, 0, 9.81, 0, 0, 0])[:, np.newaxis]

    def batch(n: int) -> WindowBatch:
        return WindowBatch(("dev",) * n, np.zeros(n, dtype=np.int64), RATE_HZ, signals[:n])

    def naive() -> FloatArray:
        return np.array([naive_features(window) for window in signals[:N_NAIVE]])

    ours = [(name, engine, n) for name in ("khan31r", "fall31") for engine in ENGINES for n in BATCHES]
    calls = {str(key): (key[1], partial(load(key[0]).extract, batch(key[2]))) for key in ours}
    rounds = rounds_of({**calls, "naive": ("numpy", naive)}, n_rounds)
    rows = []
    for key in ours:
        us = statistics.median(times[str(key)] for times in rounds) / key[2]
        times = statistics.median(times["naive"] / times[str(key)] for times in rounds) / N_NAIVE * key[2]
        rows.append({"set": key[0], "engine": key[1], "batch": key[2], "us_per_window": us})
        if key[0] == "khan31r":
            rows[-1]["times_naive"] = times
    difference = float(np.max(np.abs(load("khan31r").extract(batch(N_NAIVE)) / naive() - 1)))
    naive_us = statistics.median(times["naive"] for times in rounds) / N_NAIVE
    return {"naive_us_per_window": naive_us, "ours": rows, "largest_relative_difference": difference}


def bench_decoding(n_rounds: int, seed: int) -> list[dict[str, object]]:
    """Microseconds a JSON message of 50 samples, with numbers of all digits and of as many as a sensor gives."""
    rng = np.random.default_rng(seed)
    decode, profile = load_codec("json").decode, DeviceProfile()
    found: list[dict[str, object]] = []
    for decimals in (17, 3):
        acc, gyr = (rng.normal(size=(N_MESSAGE, 3)).round(decimals).tolist() for _ in range(2))
        stamps = [1_700_000_000_000_000_000 + 20_000_000 * i for i in range(N_MESSAGE)]
        units = {"acc": "m/s2", "gyr": "rad/s"}
        payload = json.dumps({"t_ns": stamps, "acc": acc, "gyr": gyr, "units": units}).encode()

        def naive(payload: bytes = payload) -> object:
            message = json.loads(payload)
            t_ns = np.array(message["t_ns"], dtype=np.int64)
            return t_ns, np.array(message["acc"], dtype=np.float64), np.array(message["gyr"], dtype=np.float64)

        ours = partial(decode, payload, device_id="dev", profile=profile)
        calls = {engine: (engine, ours) for engine in ENGINES}
        rounds = rounds_of({**calls, "json_numpy": ("numpy", naive)}, n_rounds)
        found.append(
            {
                "bytes": len(payload),
                "json_numpy_us": statistics.median(times["json_numpy"] for times in rounds),
                "us": {e: statistics.median(times[e] for times in rounds) for e in ENGINES},
                "times_json_numpy": {e: statistics.median(t["json_numpy"] / t[e] for t in rounds) for e in ENGINES},
            }
        )
    return found


def bench_filter(n_rounds: int, seed: int) -> list[dict[str, float]]:
    """Microseconds a block of 6 channels, ours and scipy.signal.sosfilt with carried state."""
    sos = butter1_lowpass_sos(20.0, RATE_HZ)
    rows = []
    for n in FILTER_BLOCKS:
        x = np.random.default_rng(seed).normal(size=(n, 6))
        state = sos_initial_state(sos, x[0])
        calls: dict[str, Callable[[], object]] = {
            "ours": lambda x=x, state=state: sos_filter(sos, x, state),  # type: ignore[misc]
            "scipy": lambda x=x, state=state: signal.sosfilt(sos, x, axis=0, zi=state),  # type: ignore[misc]
        }
        times = side_by_side(calls, n_rounds)
        rows.append({"samples": n, "us_per_block": times["ours"], "scipy_us_per_block": times["scipy"]})
    return rows


def bench_messages(n_rounds: int, seed: int) -> list[dict[str, object]]:
    """Microseconds a message of a walk, resampled, filtered and cut into windows of 5 s every 0.5 s, by each engine."""
    sos, shape = butter1_lowpass_sos(10.0, RATE_HZ), WindowShape.of(rate_hz=RATE_HZ, window_s=5.0, hop_s=0.5)
    rng, k = np.random.default_rng(seed), np.arange(N_STREAM)
    t_ns = np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64) + rng.integers(-2_000_000, 2_000_000, size=k.size)
    walk = walking("dev", k, t_ns, rng)
    rows: list[dict[str, object]] = []
    for n in MESSAGES:
        parts = [slice(i, i + n) for i in range(0, N_STREAM, n)]
        blocks = [SampleBlock("dev", t_ns[i], walk.acc_ms2[i], walk.gyr_rads[i]) for i in parts]

        def push(blocks: list[SampleBlock] = blocks) -> None:
            resampler, cutter = ResamplerState(), CutterState()
            for block in blocks:
                resampler, chunks = resample(resampler, block, rate_hz=RATE_HZ, settings=StreamSettings())
                for chunk in chunks:
                    cutter, _ = push_chunk(cutter, chunk, device_id="dev", shape=shape, sos=sos)

        rounds = rounds_of({engine: (engine, push) for engine in ENGINES}, n_rounds)
        us = {engine: statistics.median(times[engine] for times in rounds) / len(blocks) for engine in ENGINES}
        rows.append({"samples": n, "us_per_message": us})
    return rows


def main() -> None:
    """Runs all and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the JSON to this file too")
    parser.add_argument("--rounds", type=int, default=9, help="rounds whose median is reported (default 9)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random windows (default 0)")
    options = parser.parse_args()
    report = {
        "benchmark": "features",
        "window": [6, N_SAMPLES],
        "seed": options.seed,
        "rounds": options.rounds,
        "threads": int(os.environ["OPENBLAS_NUM_THREADS"]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        "load_1min": round(os.getloadavg()[0], 1),
        "features": bench_features(options.rounds, options.seed),
        "decoding": bench_decoding(options.rounds, options.seed),
        "filter": bench_filter(options.rounds, options.seed),
        "messages": bench_messages(options.rounds, options.seed),
    }
    text = json.dumps(report, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
