"""Which codec reads a topic's messages, and what its profile must say: found by trying all of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stream_occ.codecs import Codec, codec_names, load_codec
from stream_occ.doctor.signals import GAP_S
from stream_occ.errors import PayloadError
from stream_occ.inputs import at_arrival
from stream_occ.joining import JoinSettings, JoinState, join
from stream_occ.samples import DeviceProfile, IntArray, SampleBlock, Sensor, SensorBlock

PROBED = 24  # messages that a codec is tried on
PROBED_BYTES = 1024 * 1024  # of all of them together, as far as more than one is there
EXPLORED = 6  # and those on which it is found out what its profile must say
ASSUMED_RATE_HZ = 50.0  # until it is counted
# Of a sensor whose unit nobody says, numbers are taken as they are; so large a unit lets raw counts pass the bounds.
RAW_SCALE = 10_000.0
_RAW_ACC = {"acc_unit": "m/s2", "acc_counts_per_unit": RAW_SCALE}
_RAW_GYR = {"gyr_unit": "rad/s", "gyr_counts_per_unit": RAW_SCALE}
LONGEST_SKEW_S = 10.0  # that a configuration may have
# What says that a payload is not of this codec at all.
_FOREIGN = frozenset({"invalid_utf8", "invalid_json", "invalid_binary", "empty", "payload_too_large"})


@dataclass(frozen=True, slots=True)
class Trial:
    """A codec on a topic. profile: what had to be said; n_read of n_tried messages; reasons: of those refused."""

    codec: str
    profile: DeviceProfile
    n_read: int
    n_tried: int
    reasons: Counter[str]
    first_refusal: str = ""
    is_json_as_table: bool = False

    @property
    def share(self) -> float:
        """Share of messages that are read."""
        return self.n_read / self.n_tried if self.n_tried else 0.0

    @property
    def is_foreign(self) -> bool:
        """True where the messages are of another format."""
        no_table = {"invalid_csv"} if " begin with " in self.first_refusal else set()
        return self.n_read == 0 and (self.reasons.keys() <= _FOREIGN | no_table or self.is_json_as_table)


@dataclass(frozen=True, slots=True)
class Source:
    """A topic's messages with their arrival in ns, and what reads them."""

    kept: Sequence[tuple[bytes, int]]
    codec: Codec
    profile: DeviceProfile


@dataclass(slots=True)
class Samples:
    """Samples of one device in the order in which the service would have them, and what its messages said.

    skew_ns: arrival against a message's last stamp; apart: stamps of the sensors that came on stamps of their own;
    n_given_up: of samples that found no partner.
    """

    blocks: list[SampleBlock] = field(default_factory=list)
    skew_ns: list[int] = field(default_factory=list)
    apart: dict[Sensor, list[IntArray]] = field(default_factory=dict)
    n_refused: Counter[str] = field(default_factory=Counter)
    n_given_up: int = 0

    @property
    def t_ns(self) -> IntArray:
        """Stamps of the samples; where none is whole, of the first sensor that came."""
        found = [block.t_ns for block in self.blocks] or next(iter(self.apart.values()), [])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def usable_codecs() -> tuple[dict[str, Codec], list[str]]:
    """Codecs by name, and the names of those whose extra is not installed."""
    found, missing = {}, []
    for name in codec_names():
        try:
            found[name] = load_codec(name)
        except ModuleNotFoundError:
            missing.append(name)
    return found, missing


def try_codecs(payloads: Sequence[bytes], codecs: dict[str, Codec]) -> list[Trial]:
    """One trial a codec, the best one first."""
    largest = max((len(payload) for payload in payloads), default=0)
    n_probed = max(1, min(PROBED, PROBED_BYTES // max(largest, 1)))
    probed = payloads[:: max(1, len(payloads) // n_probed)][:n_probed]
    trials = [_trial(name, codec, probed) for name, codec in codecs.items()]
    return sorted(trials, key=lambda trial: (-trial.share, trial.is_foreign, _n_said(trial.profile), trial.codec))


def _n_said(profile: DeviceProfile) -> int:
    """How much the profile has to say: of two codecs the one that needs less is likelier."""
    plain = DeviceProfile()
    return sum(getattr(profile, name) != getattr(plain, name) for name in DeviceProfile.__dataclass_fields__)


def _trial(name: str, codec: Codec, payloads: Sequence[bytes]) -> Trial:
    """The trial with the profile that says least of those that read most; each says what refusals before it ask for."""
    plain = DeviceProfile()
    seen, waiting, best = {plain}, deque([plain]), _attempt(name, codec, payloads, plain)
    few = payloads[:: max(1, len(payloads) // EXPLORED)]
    while waiting and best.share < 1.0 and not best.is_foreign:
        tried = _attempt(name, codec, few, waiting.popleft())
        if tried.share > best.share:
            best = _attempt(name, codec, payloads, tried.profile)
        news = [profile for profile in _said_more(tried) if profile not in seen]
        seen.update(news)
        waiting.extend(news)
    return best


def _said_more(trial: Trial) -> list[DeviceProfile]:
    """Profiles that say what the commonest refusal asks for."""
    profile, reasons = trial.profile, trial.reasons
    found = []
    if profile.stamps == "message" and {"stamp_missing", "stamp_invalid"} & reasons.keys():
        found.append(replace(profile, stamps="arrival"))
    if profile.acc_sign is None and "sign_unknown" in reasons:
        found.append(replace(profile, acc_sign=1))
    if profile.gravity is None and "gravity_unknown" in reasons:
        found.append(replace(profile, gravity="included"))
    if profile.nominal_rate_hz is None and "rate_invalid" in reasons:
        found.append(replace(profile, nominal_rate_hz=ASSUMED_RATE_HZ))
    if {"units_unknown", "value_out_of_range"} & reasons.keys():
        found += [replace(profile, **raw) for raw in (_RAW_ACC, _RAW_GYR, {**_RAW_ACC, **_RAW_GYR})]  # type: ignore[arg-type]
    return found


def _attempt(name: str, codec: Codec, payloads: Sequence[bytes], profile: DeviceProfile) -> Trial:
    reasons: Counter[str] = Counter()
    first = ""
    for payload in payloads:
        _, reason, text = _decoded(codec, payload, "device", profile)
        if reason is not None:
            reasons[reason] += 1
            first = first or text
    is_json = all(payload[:1] in (b"{", b"[") for payload in payloads)
    is_table = " column" in first
    return Trial(
        name,
        profile,
        len(payloads) - reasons.total(),
        len(payloads),
        reasons,
        first,
        is_json_as_table=is_json and is_table,
    )


def _decoded(
    codec: Codec, payload: bytes, device_id: str, profile: DeviceProfile
) -> tuple[Sequence[SampleBlock | SensorBlock], str | None, str]:
    """Blocks, or the reason why not and its line; a message that names another device is read all the same."""
    try:
        return codec.decode(payload, device_id=device_id, profile=profile), None, ""
    except PayloadError as error:
        if error.reason == "device_mismatch" and device_id != error.got:
            return (
                _decoded(codec, payload, error.got, profile) if len(error.got) < 77 else ((), error.reason, str(error))
            )
        return (), error.reason, str(error)
    except Exception as error:  # a codec of other people
        return (), "internal_error", type(error).__name__


def read(sources: Sequence[Source], *, max_skew_s: float = LONGEST_SKEW_S) -> Samples:
    """Samples of one device's messages, of all its topics in order of arrival; sensors joined as in `Intake`."""
    found, state, settings = Samples(), JoinState(), JoinSettings(max_skew_s=max_skew_s, gap_s=GAP_S)
    messages = [(arrived_ns, payload, source) for source in sources for payload, arrived_ns in source.kept]
    for arrived_ns, payload, source in sorted(messages, key=lambda message: message[0]):
        blocks, reason, _ = _decoded(source.codec, payload, "device", source.profile)
        if reason is not None:
            found.n_refused[reason] += 1
            continue
        if source.profile.stamps == "arrival":
            blocks = at_arrival(blocks, arrived_ns)
        if not blocks:
            continue
        found.skew_ns.append(arrived_ns - max(int(block.t_ns.max()) for block in blocks))
        whole = [block for block in blocks if isinstance(block, SampleBlock)]
        for block in blocks:
            if isinstance(block, SensorBlock):
                found.apart.setdefault(block.sensor, []).append(block.t_ns)
        if len(whole) < len(blocks):
            state, whole, lost = join(state, blocks, settings)
            found.n_given_up += lost.total()
        found.blocks += whole
    return found
