"""Features of a window of 4.5 s, beside per-feature scipy, tsfel and tsfresh."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from stream_occ import engines
from stream_occ.bench.peers import absent
from stream_occ.bench.report import Found, Ratio, Settings, three_digits
from stream_occ.bench.timing import in_turns
from stream_occ.features import fall31, khan31r
from stream_occ.samples import FloatArray
from stream_occ.windowing import WindowBatch

RATE_HZ = 50.0
N_SAMPLES = 225
BATCH = 128
CALLS = 20
BAR = 50.0  # to per-feature scipy, tsfel and tsfresh
AXES = ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z")
NORM_STATISTICS = {  # of tsfel, by domain; the axes' means come to that
    "statistical": ("Mean", "Max", "Min", "Standard deviation", "Interquartile range", "Absolute energy"),
    "temporal": ("Mean absolute diff",),
    "spectral": ("Spectral entropy",),
}

Way = Callable[[FloatArray], Any]

__all__ = ["batch_of", "measure", "per_feature", "signals"]


def measure(settings: Settings) -> Found:
    """khan31r and the default's fall31; peers make the 31 of khan31r, tsfel and tsfresh the 22 to 26 that they have."""
    X, n = signals(BATCH), 16 if settings.is_quick else BATCH
    ours: dict[str, Way] = {
        "khan31r": lambda windows: khan31r.FEATURE_SET.extract(batch_of(windows)),
        "fall31": lambda windows: fall31.FEATURE_SET.extract(batch_of(windows)),
    }
    alone: dict[str, Way] = {**ours, "per-feature scipy": lambda windows: [per_feature(each) for each in windows]}
    if not absent("tsfel"):
        alone["tsfel"] = by_tsfel()
    at_once = dict(alone)
    if not absent("tsfresh"):
        at_once["tsfresh"] = by_tsfresh()  # takes many windows as one table: one alone would pay for the table
    engines.select("compiled" if engines.has_numba() else "numpy")
    engines.warm()  # as `detect` does before its first message
    figures: dict[str, Any] = {"n_samples": N_SAMPLES}
    ratios: list[Ratio] = []
    for task, size, ways in (("one window", 1, alone), (f"{n} at once", n, at_once)):
        turns = {
            name: (lambda number, way=way, size=size: way(X[(first := number % (BATCH - size + 1)) : first + size]))
            for name, way in ways.items()
        }
        calls = CALLS if size == 1 else 0
        timed = in_turns(turns, settings.rounds, reference="khan31r", calls=calls)
        figures[task] = {
            name: {**of, "us_a_window": three_digits(1000 * of["ms"] / size)} for name, of in timed.items()
        }
        ratios += [Ratio(f"khan31r, {task}", name, timed[name]["ratio"], BAR) for name in ways if name not in ours]
        ratios.append(Ratio(f"khan31r, {task}", "our fall31", timed["fall31"]["ratio"]))
    engines.select("auto")
    us = {task: figures[task]["fall31"]["us_a_window"] for task in figures if task != "n_samples"}
    lines = [f"fall31, {task}: {value:g} us a window" for task, value in us.items()]
    return Found(figures, ratios, lines, absent("tsfel", "tsfresh"))


def signals(n: int) -> FloatArray:
    """Windows (n, 6, 225) of noise around gravity."""
    rng = np.random.default_rng(0)
    windows: FloatArray = rng.normal(size=(n, 6, N_SAMPLES)) + np.array([0, 0, 9.81, 0, 0, 0])[:, np.newaxis]
    return windows


def batch_of(windows: FloatArray) -> WindowBatch:
    """As the pipeline hands them over."""
    return WindowBatch(("dev",) * len(windows), np.zeros(len(windows), dtype=np.int64), RATE_HZ, windows)


def per_feature(window: FloatArray) -> list[float]:
    """khan31r of one window, feature by feature, as one writes it first with numpy and scipy."""
    from scipy import stats

    acc, gyr = window[:3], window[3:]
    norms = [np.linalg.norm(acc, axis=0), np.linalg.norm(gyr, axis=0)]
    values = [np.mean(x) for x in (*acc, norms[0], *gyr, norms[1])]
    for statistic in (np.max, np.min, np.std, stats.iqr):
        values += [statistic(x) for x in norms]
    values += [np.mean(np.sum(np.abs(xyz), axis=0)) for xyz in (acc, gyr)]
    power = [np.abs(np.fft.rfft(x - np.mean(x)))[1:] ** 2 for x in norms]
    values += [stats.entropy(p / np.sum(p)) / np.log(len(p)) for p in power]
    values += [np.var(x) for x in norms]  # the energy of all bins but DC, by Parseval
    for xyz in (acc, gyr):
        values += [np.corrcoef(xyz[i], xyz[j])[0, 1] for i, j in ((0, 1), (0, 2), (1, 2))]
    values += [np.mean(np.abs(np.diff(x))) * RATE_HZ for x in norms]
    values.append(np.corrcoef(norms[0], norms[1])[0, 1])
    return [float(value) for value in values]


def by_tsfel() -> Way:
    """22 features a window by its extractor: means of the axes, and eight statistics of both norms."""
    tsfel = import_module("tsfel")
    known = tsfel.get_features_by_domain()
    of_axes = {"statistical": {"Mean": known["statistical"]["Mean"]}}
    of_norms = {domain: {name: known[domain][name] for name in names} for domain, names in NORM_STATISTICS.items()}

    def extract(windows: FloatArray) -> list[Any]:
        found = []
        for window in windows:
            norms = np.column_stack([np.linalg.norm(window[:3], axis=0), np.linalg.norm(window[3:], axis=0)])
            for features, X in ((of_axes, window.T), (of_norms, norms)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found.append(tsfel.time_series_features_extractor(features, X, fs=RATE_HZ, verbose=0))
        return found

    return extract


def by_tsfresh() -> Way:
    """26 features a window by its extractor, in this process: means of the axes, and ten statistics of both norms."""
    pandas, extraction = import_module("pandas"), import_module("tsfresh.feature_extraction")
    plain = ("mean", "maximum", "minimum", "standard_deviation", "abs_energy", "mean_abs_change")
    of_norm = {
        **dict.fromkeys(plain),
        "quantile": [{"q": 0.25}, {"q": 0.75}],
        "fourier_entropy": [{"bins": 10}],
        "absolute_sum_of_changes": None,
    }
    kinds: dict[str, Any] = {**{axis: {"mean": None} for axis in AXES}, "acc_norm": of_norm, "gyr_norm": of_norm}

    def extract(windows: FloatArray) -> Any:
        columns = dict(zip(AXES, windows.transpose(1, 0, 2).reshape(6, -1), strict=True))
        for sensor in ("acc", "gyr"):
            columns[f"{sensor}_norm"] = np.linalg.norm([columns[f"{sensor}_{axis}"] for axis in "xyz"], axis=0)
        table = pandas.DataFrame({"id": np.repeat(np.arange(len(windows)), N_SAMPLES), **columns})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return extraction.extract_features(
                table, column_id="id", kind_to_fc_parameters=kinds, n_jobs=0, disable_progressbar=True
            )

    return extract
