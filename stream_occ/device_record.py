"""What the service notes of a device beside the pipeline's state."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from stream_occ.drift import DriftWatch
from stream_occ.joining import JoinState
from stream_occ.numbering import Numbering
from stream_occ.samples import Alert, DeviceProfile
from stream_occ.waveform import Waveform


@dataclass(slots=True)
class DeviceRecord:
    """Times ending in _s are monotonic.

    open_alert: as last told, with what its score came from; told_s: when an alert last changed, open or closed;
    is_alert_retained: the broker holds it; waveform: number of the change, and the signals of its window; doubled:
    samples and duplicates at the last look at their share; looked: the state that was looked at last, of which rate_hz
    and is_odd are; faults: as last told, and raised: how often each was; rate_off_s: since when the rate is not
    the profile's; lost_s: when samples were last known to be missing; join: what a device with a stream for each
    sensor has still to send.
    """

    profile: DeviceProfile
    since_s: float
    heard_s: float
    data_s: float | None = None
    data_ns: int | None = None
    is_online: bool = False
    refused: Counter[str] = field(default_factory=Counter)
    fault_seen_s: dict[str, float] = field(default_factory=dict)
    odd_samples: dict[str, int] = field(default_factory=dict)
    doubled: tuple[int, int] = (0, 0)
    looked: object = None
    rate_hz: float | None = None
    is_odd: bool = False
    faults: frozenset[str] = frozenset()
    raised: Counter[str] = field(default_factory=Counter)
    rate_off_s: float | None = None
    lost_s: float = -math.inf
    n_decided: int = 0
    decided_s: float | None = None
    unsent: list[tuple[str, bytes, bool]] = field(default_factory=list)
    open_alert: Alert | None = None
    told_s: float = -math.inf
    is_alert_retained: bool = False
    is_alert_refused: bool = False  # by the broker: to be told again
    waveform: tuple[int, Waveform] | None = None
    drift: DriftWatch | None = None
    join: JoinState | None = None
    numbering: Numbering = field(default_factory=Numbering)
    shown: tuple[object, ...] | None = None
    state_due_s: float = 0.0

    def is_told(self, now_s: float) -> bool:
        """True where the device must keep its place: an alert of it is open, or a change of one is on its way out."""
        return self.open_alert is not None or self.told_s == now_s
