"""Scores that are watched for drift: of windows that can be trusted, and not while an alert is open."""

from __future__ import annotations

import logging

from stream_occ.config import Config
from stream_occ.device_record import DeviceRecord
from stream_occ.drift import DriftPolicy, DriftWatch
from stream_occ.samples import Decision

log = logging.getLogger("stream_occ.drifting")


class DriftDesk:
    """Gives each device a watch of its own, kept in its record; where the configuration wants none, does nothing."""

    def __init__(self, config: Config) -> None:
        settings = config.drift
        self._policy = DriftPolicy(**settings.model_dump(exclude={"enabled"})) if settings.enabled else None

    def push(self, decision: Decision, record: DeviceRecord, *, has_faults: bool) -> None:
        """Takes one window's score; a change that it brings to light is logged."""
        if self._policy is None or has_faults or record.open_alert is not None:
            return
        if record.drift is None:
            record.drift = DriftWatch(self._policy)
        drift = record.drift.push(decision)
        if drift is not None:
            log.warning(
                "scores of %s have gone %s for good, %d blocks of %g s ago: mean rank %.2f before, %.2f since",
                *(decision.device_id, drift.direction, drift.n_blocks_since, self._policy.block_s),
                *(drift.before, drift.after),
                extra={"device": decision.device_id},
            )
