"""What a model file says of itself: the card in its metadata, and what reading and verifying it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from stream_occ.artifacts.container import Entry

UNITS = {"acc": "m/s2, gravity included", "gyr": "rad/s", "time": "ns"}
MIN_WINDOW_SAMPLES = 4


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DetectorCard(_Strict):
    """The frozen scorer: its kind (a file of stream_occ/scoring) and the parameters beside its arrays."""

    kind: str
    params: dict[str, Any]


class FeatureSetCard(_Strict):
    """The features that the model was trained on; name, version and every column's name must match at load."""

    name: str
    version: int
    names: list[str]


class Card(_Strict):
    """The JSON in a model file's metadata. `metadata` is the trainer's: training summary, seed, data hash, versions."""

    format_version: int = Field(ge=1)
    detector: DetectorCard
    feature_set: FeatureSetCard
    rate_hz: float = Field(gt=0, le=100_000)
    window_s: float = Field(gt=0, le=3600)
    hop_s: float = Field(gt=0, le=3600)
    units: dict[str, str]
    filter: str | None
    scaler: str
    threshold: float
    self_test_rtol: float = Field(ge=0, le=1e-6)
    arrays_sha256: str
    metadata: dict[str, Any]

    @field_validator("hop_s")
    @classmethod
    def _check_window(cls, hop_s: float, info: ValidationInfo) -> float:
        rate_hz, window_s = info.data.get("rate_hz"), info.data.get("window_s")
        if rate_hz is None or window_s is None:  # refused already
            return hop_s
        if hop_s > window_s or round(window_s * rate_hz) < MIN_WINDOW_SAMPLES or hop_s * rate_hz < 0.5:
            raise ValueError(f"no windows of {MIN_WINDOW_SAMPLES} samples or more that leave none out")
        return hop_s

    @field_validator("units")
    @classmethod
    def _check_units(cls, units: dict[str, str]) -> dict[str, str]:
        if units != UNITS:
            raise ValueError("not the units of format version 1")
        return units


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model file says of itself; from `read_info`, nothing but its structure is checked."""

    path: str
    n_bytes: int
    sha256: str
    is_signed: bool
    card: Card
    arrays: tuple[Entry, ...]

    @property
    def model_id(self) -> str:
        """First 12 digits of the SHA-256."""
        return self.sha256[:12]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The self-test vectors scored again: rows, the largest relative difference, whether every bit is the same."""

    n_rows: int
    max_relative_difference: float
    is_bit_equal: bool


def first_problem(error: ValidationError) -> str:
    """The first thing that a validation found, as one short phrase: where and what."""
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part)[:40] for part in problem['loc'])}: {problem['msg'][:120]}"
