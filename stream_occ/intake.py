"""The service's front desk: from a message as it came to sample blocks, or to a reason why not; who is known.

Nothing here grows without bound: devices are at most `max_devices`, reasons are a fixed set, and a refused message
leaves a number behind and nothing else.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stream_occ.clock import epoch_mistake
from stream_occ.config import Config
from stream_occ.device_record import DeviceRecord
from stream_occ.errors import PayloadError
from stream_occ.inbox import Received
from stream_occ.inputs import Input, as_declared, at_arrival
from stream_occ.joining import JoinSettings, JoinState, join
from stream_occ.numbering import Number, is_boot, is_seq
from stream_occ.samples import NS_PER_S, Alert, DeviceProfile, SampleBlock, SensorBlock
from stream_occ.sharding import Shard
from stream_occ.topics import Topics, is_device_id

log = logging.getLogger("stream_occ.intake")

PROBATION_S = 10.0  # of silence: then a device of which no window was ever scored may lose its place
# A table without an idle device is not searched again so soon: a flood must not cost a search a message.
FULL_FOR_S = 1.0
# Messages that are refused for these reasons hold no samples of now; any other may, and then those are missing.
HOLDS_NONE = frozenset({"empty", "no_samples", "retained"})
_REMEDY = "Set the device's clock, or stamps: arrival in its profile"


class Intake:
    """Takes messages one by one; `refused` counts by reason over all devices, known or not."""

    def __init__(self, config: Config, topics: Topics) -> None:
        self.devices: dict[str, DeviceRecord] = {}
        self.refused: Counter[str] = Counter()
        self.n_messages = 0
        self.n_data = 0  # of them, on an input's topic, from devices that are not excluded by limits.allowed_devices
        self.forgotten: list[str] = []
        self.numbered: set[str] = set()  # devices that number their messages
        self.held: dict[str, JoinState] = {}  # of devices whose `join` changed; emptied by whoever keeps it
        self.is_refused = False  # the last message
        self._full_until_s = -math.inf
        self._inputs = [Input.of(entry) for entry in config.inputs]
        self._stamps_some = any(entry.profile.stamps == "arrival" for entry in self._inputs)
        self._topics = topics
        self._limits = config.limits
        self._allowed = frozenset(config.limits.allowed_devices)
        self._max_past_ns = round(config.stream.max_past_s * NS_PER_S)
        self._max_future_ns = round(config.stream.max_future_s * NS_PER_S)
        self._reorder_s = config.stream.reorder_s
        self._join_settings = JoinSettings(max_skew_s=config.stream.max_skew_s, gap_s=config.stream.gap_s)

    def accept(self, message: Received, *, now_ns: int, now_s: float) -> list[SampleBlock]:
        """Blocks that a message completes; none where it waits for another sensor, or is refused, which is counted.

        Where samples are missing that were sent, a block without any says where.
        """
        self.n_messages += 1
        self.is_refused = False
        if self._topics.is_own(message.topic):
            return self._refuse("own_topic", message, None, now_s)
        found = self._find(message.topic)
        if found is None:
            return self._refuse("no_input", message, None, now_s)
        device_id, entry = found
        is_listed = not self._allowed or device_id in self._allowed
        self.n_data += is_listed
        if not is_device_id(device_id):
            return self._refuse("bad_device_id", message, None, now_s)
        if not is_listed:
            return self._refuse("device_not_listed", message, None, now_s, device_id=device_id)
        record = self._known(device_id, entry, now_s)
        if record is None and now_s < self._full_until_s:
            return self._refuse("device_limit", message, None, now_s, device_id=device_id)
        blocks, reason, detail = self._decoded(message, device_id, entry, now_ns, now_s)
        if record is None and reason is None and self._make_room(now_s):
            record = self._register(device_id, entry, now_s)
        if record is None:
            return self._refuse("device_limit", message, None, now_s, device_id=device_id)
        record.heard_s = now_s
        is_taken, lost, found_ns = self._take_number(device_id, record, blocks, now_s, resends=entry.resends)
        if not is_taken:
            return lost
        if reason is not None:
            lost += [] if reason in HOLDS_NONE else self._loss(device_id, record, now_s)
            return lost + self._refuse(reason, message, record, now_s, detail, device_id=device_id)
        record.profile = entry.profile
        has_partial = self._count_partial(record, blocks, now_s)
        samples = self._join(record, blocks, now_s)
        if samples:
            record.data_s, record.data_ns = now_s, now_ns
            samples = [as_declared(block, entry.profile) for block in samples]
            if has_partial:  # of which rows records were left out is not known, the last among them
                samples[0] = replace(samples[0], lost_rows=np.arange(len(samples[0]) + 1))
            if found_ns is not None:
                samples[0] = replace(samples[0], found_t_ns=np.array([found_ns], dtype=np.int64))
        return lost + samples

    def overflowed(self, lost: Mapping[str, int], now_s: float) -> list[SampleBlock]:
        """Word that known devices lost messages for which the queue had no room, by topic; "": any may have."""
        blocks = []
        for topic, n in lost.items():
            found = self._find(topic)
            names = self.devices.keys() if not topic else () if found is None else (found[0],)
            for device_id in names & self.devices.keys():
                record = self.devices[device_id]
                record.refused["queue_full"] += n if topic else 0
                record.fault_seen_s["queue_full"] = now_s
                blocks += self._loss(device_id, record, now_s)
        return blocks

    def is_stamped_here(self, topic: str) -> bool:
        """True for a message whose stamps are those of its arrival: two that are alike may be two."""
        found = self._find(topic) if self._stamps_some else None
        return found is not None and found[1].profile.stamps == "arrival"

    def is_elsewhere(self, topic: str, shard: Shard) -> bool:
        """True for samples and commands of a device that another process of the division has. Any thread may ask."""
        found = self._find(topic)
        device_id = self._topics.command_of(topic)[0] if found is None else found[0]
        return is_device_id(device_id) and not shard.owns(device_id)

    def remind(self, topic: str) -> None:
        """A numbering device that sends again what was taken did not hear of it: it is told once more."""
        found = self._find(topic)
        record = None if found is None else self.devices.get(found[0])
        if record is not None and record.numbering.last is not None:
            record.numbering.is_due = True

    def restore(
        self, device_id: str, open_alert: Alert | None, now_s: float, number: Number | None = None
    ) -> DeviceRecord | None:
        """A device known before the service started; None where it has no place now. An open alert always has."""
        is_wanted = not self._allowed or device_id in self._allowed
        if open_alert is None and not (is_wanted and len(self.devices) < self._limits.max_devices):
            return None
        record = DeviceRecord(DeviceProfile(), since_s=now_s, heard_s=now_s, open_alert=open_alert)
        record.numbering.last = number
        self.devices[device_id] = record
        if number is not None:
            self.numbered.add(device_id)
        return record

    def refuse_device(self, device_id: str, reason: str, now_s: float) -> None:
        """Counts a refusal that was found out later than at the desk."""
        self.refused[reason] += 1
        record = self.devices[device_id]
        record.refused[reason] += 1
        record.fault_seen_s[reason] = now_s

    def refuse_command(self, reason: str, topic: str, device_id: str, detail: str = "") -> None:
        """Counts a refused command; it is no fault of the device that is meant."""
        record = self.devices.get(device_id)
        if record is not None:
            record.refused[reason] += 1
        n = self.refused[reason] + 1 if record is None else record.refused[reason]
        self._count(reason, topic, n, detail, device_id if is_device_id(device_id) else None)

    def forget_idle(self, now_s: float) -> None:
        """Forgets devices that have not been heard for long and have no open alert."""
        horizon_s = now_s - self._limits.forget_device_after_s
        for device_id in [name for name, record in self.devices.items() if record.heard_s < horizon_s]:
            if not self.devices[device_id].is_told(now_s):
                self._forget(device_id)

    def _find(self, topic: str) -> tuple[str, Input] | None:
        for entry in self._inputs:
            match = entry.pattern.fullmatch(topic)
            if match is not None:
                return match["device"], entry
        return None

    def _decoded(
        self, message: Received, device_id: str, entry: Input, now_ns: int, now_s: float
    ) -> tuple[Sequence[SampleBlock | SensorBlock], str | None, str]:
        """The message's blocks, and the reason and detail of a refusal; it may have both: blocks may be numbered."""
        blocks: Sequence[SampleBlock | SensorBlock] = []
        reason, detail = self._check(message), ""
        if reason is not None:
            return blocks, reason, detail
        try:
            blocks = entry.codec.decode(message.payload, device_id=device_id, profile=entry.profile)
            if entry.profile.stamps == "arrival":
                blocks = at_arrival(blocks, now_ns - round((now_s - message.arrived_s) * NS_PER_S))
            reason, detail = self._check_stamps(blocks, now_ns)
            if any(block.device_id != device_id for block in blocks):
                reason, detail, blocks = "device_mismatch", f"the codec names another device than {device_id}", []
            if not all(_has_sound_number(block) for block in blocks):
                reason, detail, blocks = "bad_field", "the codec made a number that is none", []
        except PayloadError as error:
            mistake = None if error.t_ns is None else epoch_mistake(error.t_ns, now_ns)
            reason, detail = _epoch_unit(mistake) if mistake else (error.reason, error.without_got)
        except Exception as error:  # a codec of other people: its error must cost this message only
            reason, detail = "internal_error", f"the codec failed: {_place(error)}"
        return blocks, reason, detail

    def _check(self, message: Received) -> str | None:
        if message.n_bytes > self._limits.max_payload_bytes:
            return "payload_too_large"
        return "retained" if message.is_retained else None

    def _take_number(
        self,
        device_id: str,
        record: DeviceRecord,
        blocks: Sequence[SampleBlock | SensorBlock],
        now_s: float,
        *,
        resends: bool,
    ) -> tuple[bool, list[SampleBlock], int | None]:
        """False for a message of a numbering device that came before or comes too early: counted, and no fault; word of
        what is missing before it; and the stamp before which, since it came, nothing is."""
        block = next((block for block in blocks if isinstance(block, SampleBlock) and block.number), None)
        if block is None or block.number is None:
            return True, [], None
        self.numbered.add(device_id)
        numbering = record.numbering
        verdict, n_missing = numbering.take(block.number, now_s, resends=resends)
        lost = self._loss(device_id, record, now_s) if n_missing else []
        found_ns = None
        if self._reorder_s and not resends:
            n_missing, found_ns = numbering.settle(block.t_ns, block.number, n_missing, now_s, self._reorder_s)
        for reason, n in (
            ("missing", n_missing),
            ("sent_again", verdict == "again"),
            ("too_early", verdict == "early"),
        ):
            record.refused[reason] += int(n)
            self.refused[reason] += int(n)
        if n_missing:
            record.fault_seen_s["missing"] = now_s
        return verdict == "taken", lost, found_ns

    def _loss(self, device_id: str, record: DeviceRecord, now_s: float) -> list[SampleBlock]:
        """Word that samples are missing; where sensors come apart it waits for the samples that are joined next."""
        record.lost_s = now_s
        if record.join is None:
            return [SampleBlock.loss(device_id)]
        record.join = self.held[device_id] = replace(record.join, is_after_loss=True)
        return []

    def _count_partial(self, record: DeviceRecord, blocks: Sequence[SampleBlock | SensorBlock], now_s: float) -> bool:
        """Counts records that a codec left out of a message whose others are good; True where there are any."""
        n = sum(block.n_partial for block in blocks if isinstance(block, SampleBlock))
        if n:
            record.refused["partial_record"] += n
            self.refused["partial_record"] += n
            record.fault_seen_s["partial_record"] = now_s
        return n > 0

    def _join(
        self, record: DeviceRecord, blocks: Sequence[SampleBlock | SensorBlock], now_s: float
    ) -> list[SampleBlock]:
        """Samples of both sensors; what was given up is counted, and is a fault while nothing at all can be joined."""
        whole = [block for block in blocks if isinstance(block, SampleBlock)]
        if record.join is None and len(whole) == len(blocks):
            return whole
        record.join, joined, lost = join(record.join or JoinState(), blocks, self._join_settings)
        self.held.update({block.device_id: record.join for block in blocks})
        for reason, n in lost.items():
            record.refused[reason] += n
            self.refused[reason] += n
            if n and not joined:
                record.fault_seen_s[reason] = now_s
        return joined

    def _check_stamps(self, blocks: Sequence[SampleBlock | SensorBlock], now_ns: int) -> tuple[str | None, str]:
        for block in blocks:
            first, last = int(block.t_ns.min()), int(block.t_ns.max())
            if first < now_ns - self._max_past_ns or last > now_ns + self._max_future_ns:
                mistake = epoch_mistake(last, now_ns)
                if mistake is not None:
                    return _epoch_unit(mistake)
                off_s = (first if first < now_ns - self._max_past_ns else last) / NS_PER_S - now_ns / NS_PER_S
                return "stamp_out_of_range", f"a stamp is {off_s:+.0f} s off the wall clock. {_REMEDY}"
        return None, ""

    def _known(self, device_id: str, entry: Input, now_s: float) -> DeviceRecord | None:
        """The device's record, made where there is room; None at the limit."""
        record = self.devices.get(device_id)
        if record is None and len(self.devices) < self._limits.max_devices:
            record = self._register(device_id, entry, now_s)
        return record

    def _register(self, device_id: str, entry: Input, now_s: float) -> DeviceRecord:
        record = DeviceRecord(entry.profile, since_s=now_s, heard_s=now_s)
        self.devices[device_id] = record
        n, n_max = len(self.devices), self._limits.max_devices
        log.info("device %s registered (%d of %d)", device_id, n, n_max, extra={"device": device_id})
        return record

    def _make_room(self, now_s: float) -> bool:
        """At the limit, the idle device that was silent for longest gives its place to one that sends usable data."""
        self.forget_idle(now_s)
        if len(self.devices) < self._limits.max_devices:
            return True
        idle = [(record.heard_s, name) for name, record in self.devices.items() if self._is_idle(record, now_s)]
        if not idle:
            self._full_until_s = now_s + FULL_FOR_S
            return False
        self._forget(min(idle)[1])
        return True

    def _is_idle(self, record: DeviceRecord, now_s: float) -> bool:
        """True where others may have its place: it never sent anything usable, or has been silent for long enough."""
        if record.is_told(now_s):
            return False
        if record.n_decided == 0:
            return record.data_s is None or now_s - record.heard_s > PROBATION_S
        return now_s - record.heard_s > self._limits.idle_device_after_s

    def _forget(self, device_id: str) -> None:
        del self.devices[device_id]
        self.numbered.discard(device_id)
        self.forgotten.append(device_id)
        log.info("device %s forgotten", device_id, extra={"device": device_id})

    def _refuse(
        self,
        reason: str,
        message: Received,
        record: DeviceRecord | None,
        now_s: float,
        detail: str = "",
        *,
        device_id: str | None = None,
    ) -> list[SampleBlock]:
        self.is_refused = True
        n = self.refused[reason] + 1
        if record is not None:
            record.refused[reason] += 1
            record.fault_seen_s[reason] = now_s
            n = record.refused[reason]
        self._count(reason, message.topic, n, detail, device_id)
        return []

    def _count(self, reason: str, topic: str, n: int, detail: str, device_id: str | None) -> None:
        """One more refusal, the n-th of its kind."""
        self.refused[reason] += 1
        if n & (n - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
            told = {"reason": reason} if device_id is None else {"reason": reason, "device": device_id}
            log.warning("refused (%s) %.100r, %d so far%s", reason, topic, n, detail and f": {detail}", extra=told)


def _has_sound_number(block: SampleBlock | SensorBlock) -> bool:
    number = block.number if isinstance(block, SampleBlock) else None
    return number is None or (is_boot(number[0]) and is_seq(number[1]))


def _epoch_unit(mistake: str) -> tuple[str, str]:
    return "epoch_unit", f"stamps are {mistake}: they are in another unit of time than is declared"


def _place(error: Exception) -> str:
    """Kind of an error and where it was raised: its text may quote the message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.filename}, line {last.lineno}"
