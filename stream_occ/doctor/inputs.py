"""Inputs of a configuration: topics that need the same, and the level of their device."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from stream_occ.config import InputConfig
from stream_occ.doctor.findings import Finding
from stream_occ.topics import is_device_id

MAX_INPUTS = 100  # of a configuration


def make_inputs(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One input for topics that differ in one level and need the same; sets their pattern and device."""
    groups: dict[tuple[Any, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.codec is not None:
            alike = {key: value for key, value in finding.profile.items() if key != "nominal_rate_hz"}
            key = finding.codec, finding.topic.count("/"), finding.part, json.dumps(alike, sort_keys=True)
            groups[key].append(finding)
    inputs: list[dict[str, Any]] = []
    for (codec, *_), members in groups.items():
        for pattern, part in _patterns(members):
            rates = [finding.profile.get("nominal_rate_hz") for finding in part]
            profile = {key: value for key, value in part[0].profile.items() if key != "nominal_rate_hz"}
            if all(rate is not None and rates[0] is not None and abs(rate / rates[0] - 1) < 0.05 for rate in rates):
                profile["nominal_rate_hz"] = rates[0]
            elif any(
                question.line.startswith("nominal_rate_hz") for question in part[0].questions
            ):  # cannot be without
                profile["nominal_rate_hz"] = sorted(rate for rate in rates if rate is not None)[len(part) // 2]
            if _is_taken(pattern, codec, profile) and len(inputs) < MAX_INPUTS:
                questions = [question for finding in part for question in finding.questions]
                inputs.append({"pattern": pattern, "codec": codec, "profile": profile, "questions": questions})
            else:
                part[0].ask(f"{pattern!r} cannot be a pattern: publish on wearables/<device>/imu", "pattern: ")
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
        finding.ask(f"{row[at]!r} is no device id (1 to 64 of A-Z a-z 0-9 . _ -): rename it", "pattern: ")
    if not valid:
        return []
    return [(str(valid[0][0].pattern), [finding for finding, _ in valid])]


def _pattern_of_one(finding: Finding) -> str:
    """The pattern of a topic whose device level cannot be seen by comparison; asks."""
    row = finding.topic.split("/")
    apart = None if finding.part is None else finding.part[0]
    candidates = [i for i, level in enumerate(row) if is_device_id(level) and i != apart]
    named = [i for i in candidates if row[i] == finding.named]
    numbered = [i for i in candidates if any(sign.isdigit() for sign in row[i])]
    at = next(iter([*named, *numbered, *candidates[1:], *candidates]), None)
    if at is None:
        finding.ask("no level of the topic can be a device id: publish on wearables/<device>/imu", "pattern: ")
        finding.codec = None
        return "{device}"
    pattern = "/".join([*row[:at], "{device}", *row[at + 1 :]])
    finding.device, finding.pattern = row[at], pattern
    if not named:
        finding.ask(f"is {row[at]!r} the device? One topic alone does not say which level is", f"pattern: {pattern}")
    return pattern
