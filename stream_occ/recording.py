"""Recording what devices send: one file a device, which `train --dataset recording` reads."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stream_occ.config import Config
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.errors import ServiceError, UsageError
from stream_occ.inbox import Inbox, Received
from stream_occ.intake import Intake
from stream_occ.mqtt import MqttLink, Subscription
from stream_occ.samples import NS_PER_S, Placement
from stream_occ.wiring import link_options, topics_of

log = logging.getLogger("stream_occ.recording")

SLICE_S = 0.1


@dataclass(frozen=True, slots=True)
class Labels:
    """What the person who records knows: goes into every file's header. subject None: the device id."""

    subject: str | None = None
    activity: str = "unknown"
    is_fall: bool = False
    placement: Placement | None = None


MAX_SAMPLES = 2_000_000  # of a file, 11 h at 50 Hz: some 300 MB, of the 512 MB that a loader reads


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """Samples by file, and refused messages by reason."""

    files: dict[str, int] = field(default_factory=dict)
    n_messages: int = 0
    refused: dict[str, int] = field(default_factory=dict)


class Recorder:
    """Writes the samples of messages, in the order of arrival; what is damaged is counted as `detect` counts it."""

    def __init__(self, config: Config, folder: Path, labels: Labels) -> None:
        self.intake = Intake(config, topics_of(config))
        self._folder = folder
        self._labels = labels
        self._writers: dict[str, RecordingWriter] = {}
        self._written: Counter[str] = Counter()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError("--out", "be a folder that can be made", str(folder), "Give another folder") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError("--out", "be a folder that can be written to", str(folder), "Give another folder")

    def take(self, messages: Sequence[Received], *, now_ns: int, now_s: float) -> None:
        """Appends the samples of messages to their devices' files."""
        for message in messages:
            for block in filter(len, self.intake.accept(message, now_ns=now_ns, now_s=now_s)):
                writer = self._writers.get(block.device_id) or self._open(block.device_id, now_ns)
                writer.append(block)
                if writer.n_samples >= MAX_SAMPLES:  # a day in one file could be recorded, but not read again
                    self._close(block.device_id)
        for device_id in self.intake.forgotten:
            if device_id not in self.intake.devices:
                self._close(device_id)
        self.intake.forgotten.clear()

    def close(self) -> RecordSummary:
        """Brings all files to the disk."""
        for device_id in list(self._writers):
            self._close(device_id)
        refused = dict(sorted(self.intake.refused.items()))
        return RecordSummary(dict(sorted(self._written.items())), self.intake.n_messages, refused)

    @property
    def n_samples(self) -> int:
        """Samples written so far."""
        return sum(self._written.values()) + sum(writer.n_samples for writer in self._writers.values())

    def _open(self, device_id: str, now_ns: int) -> RecordingWriter:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ns // NS_PER_S))
        record = self.intake.devices[device_id]
        writer = RecordingWriter(
            self._folder / f"{stamp}_{device_id}.rec",
            device_id,
            subject=self._labels.subject,
            activity=self._labels.activity,
            is_fall=self._labels.is_fall,
            placement=self._labels.placement or record.profile.placement,
            full_scale=(record.profile.acc_range_ms2 or math.inf, record.profile.gyr_range_rads or math.inf),
        )
        self._writers[device_id] = writer
        log.info("recording %s into %s", device_id, writer.path, extra={"device": device_id})
        return writer

    def _close(self, device_id: str) -> None:
        writer = self._writers.pop(device_id, None)
        if writer is not None:
            writer.close()
            self._written[str(writer.path)] += writer.n_samples


def run(
    config: Config,
    folder: Path,
    labels: Labels,
    *,
    client_id: str,
    stop: threading.Event,
    seconds: float | None = None,
    on_ready: Callable[[str], None] = lambda line: None,
    on_progress: Callable[[float, int], None] = lambda elapsed_s, n_samples: None,
) -> RecordSummary:
    """Records until `stop` is set or `seconds` are over.

    Raises ServiceError where the broker has not taken the subscriptions within mqtt.connect_timeout_s (or `seconds`, if
    less), where another process takes the session over and where the network thread died.
    """
    recorder = Recorder(config, folder, labels)
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    is_ready = threading.Event()
    link = MqttLink(
        link_options(config, client_id),
        on_message=inbox.put,
        subscriptions=[Subscription(entry.topic_filter, entry.qos) for entry in config.inputs],
        on_ready=is_ready.set,
    )
    link.start()
    seconds = math.inf if seconds is None else seconds
    began_s = time.monotonic()
    ready_within_s, is_announced = min(seconds, config.mqtt.connect_timeout_s), False
    try:
        while not stop.wait(SLICE_S):
            now_s = time.monotonic()
            if is_ready.is_set() and not is_announced:
                is_announced = True
                on_ready(f"ready: recording {', '.join(entry.pattern for entry in config.inputs)} into {folder}")
            if link.fatal is not None:
                raise link.fatal
            if not link.is_alive:
                raise ServiceError("record", "have its network thread alive", "a dead one", "Start it again")
            recorder.take(inbox.drain(), now_ns=time.time_ns(), now_s=now_s)
            if not is_announced and now_s - began_s >= ready_within_s:
                raise _unreachable(config, ready_within_s)
            on_progress(now_s - began_s, recorder.n_samples)
            if now_s - began_s >= seconds:
                break
    finally:
        link.stop()
        try:
            recorder.take(inbox.drain(), now_ns=time.time_ns(), now_s=time.monotonic())
        finally:
            recorder.intake.refused += inbox.refused
            summary = recorder.close()
    return summary


def _unreachable(config: Config, within_s: float) -> ServiceError:
    return ServiceError(
        f"broker {config.mqtt.host}:{config.mqtt.port}",
        f"take the subscriptions within {within_s:g} s",
        "nothing",
        "Check --host, --port and the broker's log",
    )
