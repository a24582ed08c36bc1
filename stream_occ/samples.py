"""The data that flows: sample blocks, recordings, windows, decisions, alerts; and the units they are in.

Inside the package everything is SI, gravity included, right-handed axes, int64 nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

STANDARD_GRAVITY_MS2 = 9.80665  # ISO 80000-3
DEG_TO_RAD = np.pi / 180.0
NS_PER_S = 1_000_000_000

ACC_UNITS: dict[str, float] = {"m/s2": 1.0, "g": STANDARD_GRAVITY_MS2, "mg": STANDARD_GRAVITY_MS2 / 1000.0}
GYR_UNITS: dict[str, float] = {"rad/s": 1.0, "deg/s": DEG_TO_RAD, "mdeg/s": DEG_TO_RAD / 1000.0}

NO_INTEGERS: IntArray = np.empty(0, dtype=np.int64)

Placement = Literal["unknown", "waist", "wrist", "thigh", "chest", "neck", "ankle"]


@dataclass(frozen=True, slots=True, eq=False)
class SampleBlock:
    """Samples of one device, in the order in which they came.

    t_ns: int64 (n,), UTC epoch or device time; acc_ms2: float64 (n, 3) with gravity; gyr_rads: float64 (n, 3).
    All finite. Stamps may be jittered, doubled or out of order: the resampler deals with them. number: (boot, seq) of
    the message, where its device numbers them. full_scale: (acc, gyr) from which a value is cut off, m/s2 and rad/s,
    inf where nobody knows. lost_rows: int64 (k,), samples before which some were sent that are not here;
    n: behind the last one. found_t_ns: int64 (k,), stamps of earlier ones before which none is missing any more.
    n_partial: records of the message that lack values and were left out. has_own_clock: stamps are not UTC's.
    """

    device_id: str
    t_ns: IntArray
    acc_ms2: FloatArray
    gyr_rads: FloatArray
    number: tuple[int | str, int] | None = None
    full_scale: tuple[float, float] = (np.inf, np.inf)
    lost_rows: IntArray = field(default_factory=lambda: NO_INTEGERS)
    found_t_ns: IntArray = field(default_factory=lambda: NO_INTEGERS)
    n_partial: int = 0
    has_own_clock: bool = False

    def __len__(self) -> int:
        return int(self.t_ns.shape[0])

    @classmethod
    def loss(cls, device_id: str) -> SampleBlock:
        """No sample, and that some were sent here that did not come."""
        none = np.empty((0, 3))
        return cls(device_id, NO_INTEGERS, none, none, lost_rows=np.zeros(1, dtype=np.int64))


def joined(blocks: Sequence[SampleBlock]) -> list[SampleBlock]:
    """One block a device, in order of arrival: far less work where messages are small."""
    by_device: dict[str, list[SampleBlock]] = {}
    for block in blocks:
        by_device.setdefault(block.device_id, []).append(block)
    first_row = {name: np.cumsum([0, *(len(block) for block in own[:-1])]) for name, own in by_device.items()}
    return [
        own[0]
        if len(own) == 1
        else SampleBlock(
            device_id,
            np.concatenate([block.t_ns for block in own]),
            np.concatenate([block.acc_ms2 for block in own]),
            np.concatenate([block.gyr_rads for block in own]),
            full_scale=own[-1].full_scale,
            lost_rows=np.concatenate([n + block.lost_rows for n, block in zip(first_row[device_id], own, strict=True)]),
            found_t_ns=np.concatenate([block.found_t_ns for block in own]),
            has_own_clock=own[-1].has_own_clock,
        )
        for device_id, own in by_device.items()
    ]


Sensor = Literal["acc", "linear", "gravity", "gyr"]


@dataclass(frozen=True, slots=True, eq=False)
class SensorBlock:
    """Samples of one sensor of one device, on stamps of its own; `stream_occ.joining` pairs them with the others.

    sensor: acc with gravity, linear without it, gravity (all m/s2) or gyr (rad/s). t_ns: int64 (n,); values: float64
    (n, 3), finite.
    """

    device_id: str
    sensor: Sensor
    t_ns: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return int(self.t_ns.shape[0])


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One trial of one person. `fall_interval_ns` is (start, end) on the block's clock where annotated.

    full_scale: of the sensors, (acc, gyr), m/s2 and rad/s, inf where nobody knows; no sample is judged by it.
    """

    dataset: str
    subject: str
    activity: str
    trial: str
    is_fall: bool
    fall_interval_ns: tuple[int, int] | None
    placement: Placement
    block: SampleBlock
    full_scale: tuple[float, float] = (np.inf, np.inf)

    @property
    def name(self) -> str:
        """Identifies the recording in reports: dataset/subject/activity/trial."""
        return f"{self.dataset}/{self.subject}/{self.activity}/{self.trial}"


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A uniform stretch of one device's stream: acc_ms2 (m, 3), gyr_rads (m, 3) at rate_hz, no gap inside.

    Sample i lies at t_start_ns + i / rate_hz; t_end_ns is the stamp of the last sample.
    """

    device_id: str
    t_start_ns: int
    rate_hz: float
    acc_ms2: FloatArray
    gyr_rads: FloatArray

    @property
    def t_end_ns(self) -> int:
        """Stamp of the last sample, ns."""
        n_steps = int(self.acc_ms2.shape[0]) - 1
        return self.t_start_ns + round(n_steps * NS_PER_S / self.rate_hz)


Label = Literal["normal", "outlier"]
Contributions = tuple[tuple[str, float], ...]
"""Features and their robust z, the one that did most for a score first."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the detector says of one window. `score` high = abnormal; margin = score - threshold, outlier where > 0.

    contributions: in what the window is unlike the nearest normal ones, see `Model.judge`. is_bridged: a hole of at
    most gap_s lies in the window, and the straight line over it was scored; none spans a longer one.
    """

    device_id: str
    t_end_ns: int
    score: float
    threshold: float
    label: Label
    model_id: str
    contributions: Contributions = ()
    is_bridged: bool = False

    @property
    def margin(self) -> float:
        """Score minus threshold: above 0 is an outlier."""
        return self.score - self.threshold


AlertState = Literal[
    "suspected", "checking", "pending", "alarm", "acknowledged", "resolved", "cancelled", "false_alarm", "expired"
]
OPEN_ALERT_STATES: frozenset[str] = frozenset({"suspected", "checking", "pending", "alarm", "acknowledged"})


@dataclass(frozen=True, slots=True)
class Alert:
    """One change of an alert's state; `seq` counts the changes of one `alert_id` from 0.

    `evidence` holds plain numbers (flagged windows, peak score, first and last flagged instants in ns). `by`: which
    person acted last, "" where none has. contributions: in what the window that began the alert is odd, see
    `Model.judge`.
    """

    alert_id: str
    device_id: str
    seq: int
    t_ns: int
    state: AlertState
    severity: Literal["info", "warning", "critical"]
    reasons: tuple[str, ...]
    score: float
    model_id: str
    evidence: dict[str, float | int] = field(default_factory=dict)
    by: str = ""
    contributions: Contributions = ()


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What a device sends. Units are declared, never guessed; None means the message itself must declare them.

    axes maps the device's axes to right-handed x, y, z: each entry is one of x, y, z, -x, -y, -z. *_counts_per_unit:
    raw counts of the sensor for one acc_unit or gyr_unit. stamps: `arrival` moves a message's stamps so that its last
    sample is at its arrival. clock: `utc`, or `own` where nobody sets it and how late samples are has to be learned
    from the pace at which they come. acc_sign: 1 where an axis that points up reads +1 g at rest, -1 where it reads
    -1 g (iOS); None: as the format says. gravity: whether accelerations hold it; None: they do, where the format
    leaves no doubt.
    """

    acc_unit: str | None = None
    gyr_unit: str | None = None
    acc_counts_per_unit: float | None = None
    gyr_counts_per_unit: float | None = None
    stamps: Literal["message", "arrival"] = "message"
    clock: Literal["utc", "own"] = "utc"
    gravity: Literal["included", "excluded"] | None = None
    axes: tuple[str, str, str] = ("x", "y", "z")
    acc_sign: Literal[1, -1] | None = None
    nominal_rate_hz: float | None = None
    acc_range_ms2: float | None = None
    gyr_range_rads: float | None = None
    placement: Placement = "unknown"
