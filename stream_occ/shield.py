"""What fails in telling of one device costs that device alone: counted as its `internal_error`, and logged."""

from __future__ import annotations

import logging
from types import TracebackType

from stream_occ.intake import Intake

log = logging.getLogger("stream_occ.shield")


class Shield:
    """Used as `with shield(device_id, now_s):` around what is done for one device."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def __call__(self, device_id: str, now_s: float) -> _Shielded:
        """Ends an error within; without a device that is known the service alone counts it."""
        return _Shielded(self._intake, device_id, now_s)


class _Shielded:
    """By hand: a generator's context manager costs three times as much, and each message needs some."""

    __slots__ = ("_device_id", "_intake", "_now_s")

    def __init__(self, intake: Intake, device_id: str, now_s: float) -> None:
        self._intake = intake
        self._device_id = device_id
        self._now_s = now_s

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        intake, device_id = self._intake, self._device_id
        if device_id in intake.devices:
            intake.refuse_device(device_id, "internal_error", self._now_s)
            n = intake.devices[device_id].refused["internal_error"]
        else:
            intake.refused["internal_error"] += 1
            n = intake.refused["internal_error"]
        if n & (n - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
            told = {"device": device_id, "reason": "internal_error"}
            log.error("something of %s failed, %d so far", device_id or "a message", n, extra=told, exc_info=error)
        return True
