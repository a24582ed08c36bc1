"""What fails in telling of one device costs that device alone: counted as its `internal_error`, and logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from stream_occ.intake import Intake

log = logging.getLogger("stream_occ.shield")


class Shield:
    """Used as `with shield(device_id, now_s):` around what is done for one device."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    @contextmanager
    def __call__(self, device_id: str, now_s: float) -> Iterator[None]:
        """Ends an error within; without a device that is known the service alone counts it."""
        try:
            yield
        except Exception:
            if device_id in self._intake.devices:
                self._intake.refuse_device(device_id, "internal_error", now_s)
                n = self._intake.devices[device_id].refused["internal_error"]
            else:
                self._intake.refused["internal_error"] += 1
                n = self._intake.refused["internal_error"]
            if n & (n - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
                told = {"device": device_id, "reason": "internal_error"}
                log.exception("something of %s failed, %d so far", device_id or "a message", n, extra=told)
