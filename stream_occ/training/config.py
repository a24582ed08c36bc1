"""What `stream-occ train` may be told: one strict model, filled from a YAML file and from flags, which win."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from stream_occ.config.keys import literals, nearest_key
from stream_occ.config.yaml_lines import load_yaml
from stream_occ.errors import ConfigError, nearest
from stream_occ.section import Section


class DataSource(Section):
    """A data set by name, where it lies (relative to the file that says so), and its variant."""

    dataset: str
    path: str
    variant: str | None = None


class DetectorConfig(Section):
    """A preset or detector by name, and parameters that replace its own."""

    name: str = "fused"
    params: dict[str, Any] = Field(default_factory=dict)


class ThresholdConfig(Section):
    """`budget`: the whole pipeline raises at most `max_false_alarms_per_day` on normal recordings of held-out people;
    `quantile`: rejects `reject_share` of their windows; `detector`: the detector's own theta.

    `auto`: the one that suits the detector: its own where theta or a majority decides, else the budget.
    """

    rule: Literal["auto", "budget", "quantile", "detector"] = "auto"
    max_false_alarms_per_day: float = Field(default=1.0, ge=0, le=86_400)
    reject_share: float = Field(default=0.01, gt=0, lt=0.5)
    n_folds: int = Field(default=3, ge=2, le=20)


class LimitsConfig(Section):
    """The smallest training set that is accepted, and how many windows at most are kept (drawn with the seed)."""

    min_windows: int = Field(default=100, ge=10)
    min_recordings: int = Field(default=1, ge=1)
    min_people: int = Field(default=1, ge=1)
    max_windows: int = Field(default=50_000, ge=100)


class TrainingConfig(Section):
    """Everything that decides what a model becomes; docs/training.md and configs/train.yaml explain each key."""

    data: tuple[DataSource, ...] = ()
    people: tuple[str, ...] = ()
    exclude_people: tuple[str, ...] = ()
    activities: tuple[str, ...] = ()
    exclude_activities: tuple[str, ...] = ()
    allow_mixed_placement: bool = False
    feature_set: str = "fall31"
    rate_hz: float = Field(default=50.0, gt=0, le=10_000)
    window_s: float = Field(default=5.0, gt=0, le=600)
    hop_s: float = Field(default=0.5, gt=0, le=600)
    train_hop_s: float | None = Field(default=None, gt=0, le=600)
    scaler: Literal["auto", "min-max", "z-score", "robust"] = "auto"
    detector: DetectorConfig = DetectorConfig()
    threshold: ThresholdConfig = ThresholdConfig()
    limits: LimitsConfig = LimitsConfig()
    seed: int = Field(default=0, ge=0, lt=2**32)

    def resolved(self) -> TrainingConfig:
        """The same with scaler `auto` replaced by the one of the detector's paper."""
        from stream_occ.detectors import preset_scaling

        if self.scaler != "auto":
            return self
        return self.model_copy(update={"scaler": preset_scaling(self.detector.name)})


_FLAGS = {"threshold.rule": "--threshold", "detector.name": "--detector", "data": "--data"}


def load_training_config(path: Path | None, overrides: Mapping[str, Any] | None = None) -> TrainingConfig:
    """The configuration of a YAML file (None: the defaults) with `overrides`, dotted keys to values, put over it.

    Raises ConfigError with file and line for an unknown key or an impossible value. Paths of data sets that the file
    names are relative to its folder.
    """
    document = None if path is None else load_yaml(path)
    data = {} if document is None else document.data
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1", "hold keys and values", type(data).__name__, "Start from configs/train.yaml")
    flags: dict[tuple[str, ...], str] = {}
    if path is not None and isinstance(data.get("data"), list):
        data["data"] = [_beside(path, source) for source in data["data"]]
    for dotted, value in (overrides or {}).items():
        keys = tuple(dotted.split("."))
        section: Any = data
        for key in keys[:-1]:
            section = section.setdefault(key, {}) if isinstance(section, dict) else None
        if isinstance(section, dict):  # else the file holds no section there, which the model refuses by its line
            section[keys[-1]] = value
        flags[keys] = _FLAGS.get(dotted, "--" + keys[-1].replace("_", "-"))
    try:
        config = TrainingConfig.model_validate(_tuples(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        loc = first["loc"]
        dotted = ".".join(map(str, loc))
        line = "" if document is None else f":{document.line_of(loc)}"
        where = f"{flags.get(tuple(map(str, loc)), f'{path}{line}')}: {dotted}"
        raise ConfigError(where, *_in_words(first)) from error
    _check_times(config, str(path) if path else "training configuration")
    return config


def _beside(path: Path, source: Any) -> Any:
    if isinstance(source, dict) and isinstance(source.get("path"), str):
        return {**source, "path": str(path.parent / source["path"])}
    return source


def _tuples(value: Any) -> Any:
    """Lists as tuples, which strict models want; people and trials written as numbers in YAML stay an error."""
    if isinstance(value, dict):
        return {key: _tuples(item) if key != "params" else item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_tuples(item) for item in value)
    return value


def _in_words(problem: Any) -> tuple[str, str, str]:
    """What must hold, what came, what to do, from pydantic's words."""
    if problem["type"] == "extra_forbidden":
        return "be a known key", repr(problem["loc"][-1]), nearest_key(TrainingConfig, problem["loc"])
    if problem["type"] == "missing":
        return "be given", "nothing", "Add it as in configs/train.yaml"
    text = str(problem["msg"])
    expected = text.removeprefix("Input should ")
    shown = repr(problem["input"])[:80]
    remedy = "Put it in quotes" if problem["type"] == "string_type" else "Correct it"
    if problem["type"] == "literal_error":
        remedy = nearest(str(problem["input"]), literals(problem), remedy)
    return (expected if expected != text else f"pass: {text}"), shown, remedy


def _check_times(config: TrainingConfig, where: str) -> None:
    n_samples = round(config.window_s * config.rate_hz)
    if n_samples < 4:
        raise ConfigError(
            f"{where}: window_s",
            "hold at least 4 samples",
            f"{config.window_s} s at {config.rate_hz} Hz",
            "Lengthen the window",
        )
    for name, hop_s in (("hop_s", config.hop_s), ("train_hop_s", config.train_hop_s or config.hop_s)):
        if hop_s > config.window_s or hop_s * config.rate_hz < 0.5:
            raise ConfigError(
                f"{where}: {name}",
                f"be at least half a sample and at most window_s = {config.window_s} s",
                f"{hop_s}",
                "Samples between windows would never be looked at" if hop_s > config.window_s else "Lengthen the hop",
            )
