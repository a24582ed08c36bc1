"""From what was heard to what is said: findings for each topic, questions where it is not clear, inputs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from stream_occ.codecs import Codec
from stream_occ.config import InputConfig
from stream_occ.doctor.heard import Heard, Topic
from stream_occ.doctor.reading import ASSUMED_RATE_HZ, RAW_SCALE, Samples, Trial, read, try_codecs, usable_codecs
from stream_occ.doctor.signals import Timing, acc_finding, gyr_finding, timing
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2
from stream_occ.topics import is_device_id

CLOCK_OFF_S = 5.0  # from here on a device's clock is asked about
CLOCK_STRANGE_S = 86_400.0  # and from here on its stamps are no time of day
MIN_SHARE = 0.5
MAX_INPUTS = 100  # of a configuration


@dataclass(slots=True)
class Question:
    """What is not clear, and the line to set."""

    text: str
    line: str


@dataclass(slots=True)
class Finding:
    """One topic. codec None: no codec reads it, `refusals` says why by codec. profile: keys that its input needs."""

    topic: str
    n_messages: int
    n_retained: int
    per_s: float
    mean_bytes: float
    largest_bytes: int
    codec: str | None = None
    n_read: int = 0
    also: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    timing: Timing | None = None
    units: list[str] = field(default_factory=list)
    stamps: str = ""
    gravity: str = ""
    profile: dict[str, Any] = field(default_factory=dict)
    pattern: str | None = None
    device: str | None = None
    named: str | None = None
    questions: list[Question] = field(default_factory=list)


@dataclass(slots=True)
class Diagnosis:
    """Findings by topic, and the inputs of a configuration that reads what can be read, with their questions."""

    seconds: float
    findings: list[Finding]
    inputs: list[dict[str, Any]]
    questions: list[Question]
    n_elsewhere: int
    n_own: int
    n_lost: int
    codecs_missing: list[str]


def diagnose(heard: Heard) -> Diagnosis:
    """All that is found out about all topics."""
    codecs, missing = usable_codecs()
    findings = [_finding(topic, codecs) for _, topic in sorted(heard.topics.items())]
    inputs = _inputs(findings)
    questions = [question for finding in findings for question in finding.questions]
    return Diagnosis(heard.seconds, findings, inputs, questions, heard.n_elsewhere, heard.n_own, heard.n_lost, missing)


def _finding(topic: Topic, codecs: dict[str, Codec]) -> Finding:
    mean = topic.n_bytes / topic.n_messages if topic.n_messages else 0.0
    found = Finding(topic.name, topic.n_messages, topic.n_retained, topic.per_s, mean, topic.largest)
    if not topic.kept:
        return found
    trials = try_codecs([payload for payload, _ in topic.kept], codecs)
    best = trials[0]
    if best.share < MIN_SHARE:
        if not all(_is_one_value(payload) for payload, _ in topic.kept):
            found.refusals = {trial.codec: trial.first_refusal for trial in trials if not trial.is_foreign}
        return found
    samples = read(topic.kept, codecs[best.codec], best.profile)
    if best.profile.nominal_rate_hz is not None:
        rate_hz = _counted_rate_hz(topic, samples)
        samples = read(topic.kept, codecs[best.codec], replace(best.profile, nominal_rate_hz=rate_hz))
        found.profile["nominal_rate_hz"] = rate_hz
        ask(
            found,
            "not said by the messages, but counted as they came; their stamps hang on it",
            f"nominal_rate_hz: {rate_hz:g}",
        )
    found.codec, found.n_read = best.codec, len(topic.kept) - samples.n_refused.total()
    found.refused = dict(samples.n_refused)
    found.also = [trial.codec for trial in trials[1:] if trial.share == best.share]
    if found.also:
        ask(found, f"{' and '.join(found.also)} would read it too", f"codec: {best.codec}")
    if best.profile.acc_sign is not None:
        found.profile["acc_sign"] = 1
        ask(found, "on Android, or iOS with standardised frames, 1; on iOS as delivered -1", "acc_sign: 1")
    if not samples.blocks:
        sensors = ", ".join(sorted(samples.sensors)) or "nothing"
        ask(found, f"{sensors} alone came here: accelerometer and gyroscope are both needed", f"codec: {best.codec}")
        found.codec = None
        return found
    _look_into(found, best, samples)
    return found


def _counted_rate_hz(topic: Topic, samples: Samples) -> float:
    """Samples a second of arrival, to three digits; what a codec assumes where there is one message alone."""
    span_s = (topic.kept[-1][1] - topic.kept[0][1]) / NS_PER_S
    n = sum(len(block) for block in samples.blocks)
    share = (len(topic.kept) - 1) / len(topic.kept)  # the first message's samples came before it
    rate_hz = n * share / span_s if span_s > 0 and n else ASSUMED_RATE_HZ
    return float(f"{min(max(rate_hz, 1.0), 1000.0):.3g}")


def _is_one_value(payload: bytes) -> bool:
    """True for a battery level or `online`: such a message is no damaged one of ours."""
    return len(payload) < 40 and not any(sign in payload for sign in b",;{[\t")


def _look_into(found: Finding, best: Trial, samples: Samples) -> None:
    """Stamps, rate, units and gravity of a topic's samples."""
    t_ns = np.concatenate([block.t_ns for block in samples.blocks])
    acc = np.concatenate([block.acc_ms2 for block in samples.blocks])
    gyr = np.concatenate([block.gyr_rads for block in samples.blocks])
    named = {block.device_id for block in samples.blocks} - {"device"}
    found.named = next(iter(named)) if len(named) == 1 else None
    found.timing = times = timing(t_ns, samples.skew_ns)
    _stamps(found, best, times)
    is_known = "stamps" in found.profile or "nominal_rate_hz" in found.profile
    if times.rate_hz is not None and times.n_samples >= 100 and not is_known:
        found.profile["nominal_rate_hz"] = float(f"{times.rate_hz:.3g}")
    is_raw_acc, is_raw_gyr = best.profile.acc_unit is not None, best.profile.gyr_unit is not None
    acc_unit, gravity = _acc_unit(found, acc * RAW_SCALE if is_raw_acc else acc, times.rate_hz, is_raw=is_raw_acc)
    if is_raw_gyr:
        _gyr_unit(found, t_ns, acc * RAW_SCALE if is_raw_acc else acc, gyr * RAW_SCALE, acc_unit, gravity)
    else:
        found.units.append("gyr: as the message declares")


def _stamps(found: Finding, best: Trial, times: Timing) -> None:
    late = f"last stamps {abs(times.skew_s):.3g} s {'before' if times.skew_s >= 0 else 'after'} arrival"
    if best.profile.stamps == "arrival":
        found.stamps = "none that can be used: each message counts as sampled when it came"
        found.profile["stamps"] = "arrival"
        if best.reasons:
            found.stamps += f" ({', '.join(best.reasons)})"
    elif abs(times.skew_s) > CLOCK_STRANGE_S:
        found.stamps = f"no time of day: {late}"
        found.profile["stamps"] = "arrival"
        ask(found, "an uptime, or a clock that was never set; with a right clock: message", "stamps: arrival")
    elif times.n_doubled > times.n_samples // 2:
        found.stamps = f"{times.n_doubled} of {times.n_samples} stamps come twice: too coarse"
        found.profile["stamps"] = "arrival"
        ask(found, "several samples have one stamp; send finer stamps, then: message", "stamps: arrival")
    else:
        found.stamps = f"UTC, {late}"
        if abs(times.skew_s) > CLOCK_OFF_S:
            ask(
                found,
                f"the device's clock, or its batches, are {times.skew_s:.0f} s off; set the clock",
                "stamps: message",
            )


def _acc_unit(found: Finding, acc: Any, rate_hz: float | None, *, is_raw: bool) -> tuple[str, float]:
    """Says the accelerometer's unit; that unit, or the likeliest, and |a| at rest in it as sent."""
    seen = acc_finding(acc, rate_hz)
    magnitude = seen.moving if seen.rest is None else seen.rest
    rest = f"|a| at rest {magnitude:.4g}" if seen.rest is not None else f"never at rest, |a| {magnitude:.4g} on average"
    if not is_raw:
        found.units.append(f"acc: as the message declares; {rest} m/s2")
        found.gravity = "included" if seen.fault is None else f"in doubt: {seen.fault}"
        if seen.fault is not None and seen.rest is None:
            ask(found, "|a| is not gravity on average: lay it on a table and run this again", "gravity: included")
        elif seen.fault is not None:
            ask(found, f"declared units and |a| do not fit ({seen.fault}): correct the sender", "gravity: included")
        return "m/s2", STANDARD_GRAVITY_MS2
    unit = seen.unit or "m/s2"
    found.profile["acc_unit"] = unit
    what = f"counts of {unit}, {seen.counts_per_unit:g} each" if seen.counts_per_unit else unit
    found.units.append(f"acc: not declared; {rest}, so {what if seen.unit else 'no known unit'}")
    found.gravity = "included"
    if seen.counts_per_unit:
        found.profile["acc_counts_per_unit"] = seen.counts_per_unit
    if seen.fault == "gravity_missing":
        found.gravity = "excluded: |a| at rest is nothing"
        ask(found, "without gravity it cannot be used: send total acceleration", "acc_unit: m/s2")
    elif seen.unit is None:
        found.gravity = "in doubt"
        text = "what is |a| at rest? If counts: acc_unit: g and "
        found.profile |= {"acc_unit": "g", "acc_counts_per_unit": float(f"{magnitude:.4g}")}
        unit = "g"
        ask(found, f"{text}those of 1 g as the sensor's range has them", f"acc_counts_per_unit: {magnitude:.4g}")
    elif seen.rest is None:
        ask(found, "the device was never at rest: lay it on a table and run this again to be sure", f"acc_unit: {unit}")
    return unit, magnitude


def _gyr_unit(found: Finding, t_ns: Any, acc: Any, gyr: Any, acc_unit: str, gravity: float) -> None:
    seen = gyr_finding(t_ns, acc, gyr, acc_unit, gravity)
    found.profile["gyr_unit"] = seen.unit
    counts = f", {seen.counts_per_unit:g} counts each" if seen.counts_per_unit else ""
    why = {
        "turns": "so it turns as gravity does",
        "size": "it is larger than any rad/s",
        "nothing": "a guess: it hardly turned",
    }[seen.why]
    found.units.append(f"gyr: not declared; {seen.unit}{counts}: {why}")
    if seen.counts_per_unit:
        found.profile["gyr_counts_per_unit"] = seen.counts_per_unit
    if seen.counts_per_unit:
        ask(
            found, "131, 65.5, 32.8 or 16.4, by the range that is set", f"gyr_counts_per_unit: {seen.counts_per_unit:g}"
        )
    elif seen.why != "turns":
        ask(found, "turn the device slowly in all directions and run this again to be sure", f"gyr_unit: {seen.unit}")
    if seen.is_mirrored:
        ask(found, "gyroscope and accelerometer turn against each other: not right-handed?", "axes: [x, y, z]")


def ask(found: Finding, text: str, line: str) -> None:
    """Adds a question."""
    found.questions.append(Question(text, line))


# ---- inputs


def _inputs(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One input for topics that differ in one level and need the same; sets their pattern and device."""
    groups: dict[tuple[Any, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.codec is not None:
            alike = {key: value for key, value in finding.profile.items() if key != "nominal_rate_hz"}
            groups[finding.codec, finding.topic.count("/"), json.dumps(alike, sort_keys=True)].append(finding)
    inputs: list[dict[str, Any]] = []
    for (codec, *_), members in groups.items():
        for pattern, part in _patterns(members):
            rates = [finding.profile.get("nominal_rate_hz") for finding in part]
            profile = {key: value for key, value in part[0].profile.items() if key != "nominal_rate_hz"}
            if all(rate is not None and rates[0] is not None and abs(rate / rates[0] - 1) < 0.05 for rate in rates):
                profile["nominal_rate_hz"] = rates[0]
            if _is_taken(pattern, codec, profile) and len(inputs) < MAX_INPUTS:
                questions = [question for finding in part for question in finding.questions]
                inputs.append({"pattern": pattern, "codec": codec, "profile": profile, "questions": questions})
            else:
                ask(part[0], f"{pattern!r} cannot be a pattern: publish on wearables/<device>/imu", "pattern: ")
    return inputs


def _is_taken(pattern: str, codec: str, profile: dict[str, Any]) -> bool:
    """True where a configuration may hold such an input: a topic can have levels that no pattern can."""
    try:
        InputConfig.model_validate_json(json.dumps({"pattern": pattern, "codec": codec, "profile": profile}))
    except ValidationError:
        return False
    return True


def _patterns(members: list[Finding]) -> list[tuple[str, list[Finding]]]:
    """Patterns that match the topics, each with the level of the device."""
    levels = [finding.topic.split("/") for finding in members]
    varying = [i for i in range(len(levels[0])) if len({row[i] for row in levels}) > 1]
    if len(varying) != 1:  # one topic, or topics that have more than the device in their levels: one input each
        return [(_pattern_of_one(finding), [finding]) for finding in members]
    at = varying[0]
    valid = [(finding, row) for finding, row in zip(members, levels, strict=True) if is_device_id(row[at])]
    for finding, row in zip(members, levels, strict=True):
        if is_device_id(row[at]):
            finding.device, finding.pattern = row[at], "/".join([*row[:at], "{device}", *row[at + 1 :]])
            continue
        ask(finding, f"{row[at]!r} is no device id (1 to 64 of A-Z a-z 0-9 . _ -): rename it", "pattern: ")
    if not valid:
        return []
    return [(str(valid[0][0].pattern), [finding for finding, _ in valid])]


def _pattern_of_one(finding: Finding) -> str:
    """The pattern of a topic whose device level cannot be seen by comparison; asks."""
    row = finding.topic.split("/")
    candidates = [i for i, level in enumerate(row) if is_device_id(level)]
    named = [i for i in candidates if row[i] == finding.named]
    numbered = [i for i in candidates if any(sign.isdigit() for sign in row[i])]
    at = next(iter([*named, *numbered, *candidates[1:], *candidates]), None)
    if at is None:
        ask(finding, "no level of the topic can be a device id: publish on wearables/<device>/imu", "pattern: ")
        finding.codec = None
        return "{device}"
    pattern = "/".join([*row[:at], "{device}", *row[at + 1 :]])
    finding.device, finding.pattern = row[at], pattern
    if not named:
        ask(finding, f"is {row[at]!r} the device? One topic alone does not say which level is", f"pattern: {pattern}")
    return pattern
