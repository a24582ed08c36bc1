"""Says units, gravity and signs of a wearer's samples, and asks where they do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.doctor.findings import Finding
from stream_occ.doctor.reading import RAW_SCALE, Trial
from stream_occ.doctor.signals import AccFinding, acc_finding, gyr_finding, pinned, timing
from stream_occ.samples import (
    ACC_UNITS,
    GYR_UNITS,
    STANDARD_GRAVITY_MS2,
    DeviceProfile,
    FloatArray,
    IntArray,
    SampleBlock,
)

# Of formats that leave units open: what their makers' sensors send.
USUAL_GYR = {"movesense": "deg/s", "witmotion": "deg/s"}
LEAST_WITH_GRAVITY = 0.7  # a walk has 0.9 in the median; 0.3 without it
GRAVITY_LINE = "gravity: included"
NO_LINE = ""  # of what no setting mends
NO_GRAVITY = (
    "no gravity in it, so this cannot be read, whatever is set: send total acceleration, or gravity beside it where "
    "the codec adds them (docs/codecs.md, 'Which app says whether gravity is in it')"
)
Part = tuple[Finding, Trial, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Signals:
    """Of one wearer, both sensors."""

    t_ns: IntArray
    acc: FloatArray
    gyr: FloatArray

    @classmethod
    def of(cls, blocks: Sequence[SampleBlock]) -> Signals:
        """All blocks in a row."""
        return cls(
            np.concatenate([block.t_ns for block in blocks]),
            np.concatenate([block.acc_ms2 for block in blocks]),
            np.concatenate([block.gyr_rads for block in blocks]),
        )


def say_units(parts: Sequence[Part], signals: Signals) -> None:
    """Units, gravity, sign and rate: each in the finding of the topic that has the sensor."""
    rate_hz = timing(signals.t_ns, ()).rate_hz
    acc_part = next(part for part in parts if part[2] != {"gyr"})
    gyr_part = next(part for part in parts if not part[2] or "gyr" in part[2])
    is_raw_acc, is_raw_gyr = acc_part[1].profile.acc_unit is not None, gyr_part[1].profile.gyr_unit is not None
    acc = signals.acc * RAW_SCALE if is_raw_acc else signals.acc
    seen = acc_finding(acc, rate_hz)
    for found, trial, sensors in parts:
        is_known = "stamps" in found.profile or "nominal_rate_hz" in found.profile
        if rate_hz is not None and len(acc) >= 100 and not is_known:
            found.profile["nominal_rate_hz"] = float(f"{rate_hz:.3g}")
        if sensors != {"gyr"}:
            (_say_raw_acc if is_raw_acc else _say_acc)(found, seen)
            _say_sign(found, trial)
            _say_gravity(found, trial, seen)
    gyr = signals.gyr * RAW_SCALE if is_raw_gyr else signals.gyr
    if is_raw_gyr:
        gravity = STANDARD_GRAVITY_MS2 if not is_raw_acc else _magnitude(seen)
        _say_raw_gyr(gyr_part[0], Signals(signals.t_ns, acc, gyr), gravity)
    else:
        gyr_part[0].units.append("gyr: as the message declares")
    none = np.zeros_like(acc)
    _say_pinned(acc_part[0], signals.t_ns, np.hstack([acc * _si(acc_part[0], "acc", ACC_UNITS), none]), "acc", "m/s2")
    _say_pinned(gyr_part[0], signals.t_ns, np.hstack([none, gyr * _si(gyr_part[0], "gyr", GYR_UNITS)]), "gyr", "rad/s")


def _si(found: Finding, sensor: str, units: dict[str, float]) -> float:
    """What one of the numbers sent is in SI units, as the profile says; 1 where messages do, 0 where nobody does."""
    if f"{sensor}_unit" not in found.profile:
        return 0.0 if any(question.line.startswith(f"{sensor}_unit") for question in found.questions) else 1.0
    return units[found.profile[f"{sensor}_unit"]] / float(found.profile.get(f"{sensor}_counts_per_unit", 1.0))


def _say_pinned(found: Finding, t_ns: IntArray, values: FloatArray, sensor: str, unit: str) -> None:
    """Warns of a sensor whose values stay at the end of its range: what a fall is beyond, nobody sees."""
    at = pinned(t_ns, values)
    if at is None:
        return
    key = {"acc": "acc_range_ms2", "gyr": "gyr_range_rads"}[sensor]
    found.ask(
        f"{sensor} stays at {at[0]:.3g} {unit}, its largest, in {at[1]} samples: its range seems to end there, and what"
        f" is beyond is not seen. Widen it on the sensor; else {key}: {at[0]:.4g} in the profile has detect compare it "
        "with the model's",
        NO_LINE,
    )


def _magnitude(seen: AccFinding) -> float:
    return seen.moving if seen.rest is None else seen.rest


def _rest(seen: AccFinding) -> str:
    return ("|a| at rest " if seen.rest is not None else "never at rest, |a| on average ") + f"{_magnitude(seen):.4g}"


def _say_acc(found: Finding, seen: AccFinding) -> None:
    """Of messages that declare their unit: whether |a| fits it."""
    found.units.append(f"acc: as the message declares; {_rest(seen)} m/s2")
    found.gravity = "included" if seen.fault is None else f"in doubt: {seen.fault}"
    if seen.fault is not None and seen.rest is None:
        found.ask("|a| is not gravity on average: lay it on a table and run this again", NO_LINE)
    elif seen.fault == "gravity_missing":
        found.gravity = f"excluded: {_rest(seen)}"
        found.ask(NO_GRAVITY, NO_LINE)
    elif seen.fault is not None:
        found.ask(f"declared units and |a| do not fit ({seen.fault}): correct the sender", NO_LINE)


def _say_raw_acc(found: Finding, seen: AccFinding) -> None:
    """Of messages that leave their unit open: which it is."""
    magnitude, unit = _magnitude(seen), seen.unit or "g"
    counts = seen.counts_per_unit if seen.unit else float(f"{magnitude:.4g}")
    what = f"counts of {unit}, {counts:g} each" if counts else unit
    found.profile["acc_unit"] = unit
    if counts:
        found.profile["acc_counts_per_unit"] = counts
    line = f"acc_counts_per_unit: {counts:g}" if counts else f"acc_unit: {unit}"
    found.gravity = "included" if seen.is_near else "in doubt"
    if seen.fault == "gravity_missing" and seen.rest is not None:
        found.gravity = "excluded: |a| at rest is nothing"
        found.ask(NO_GRAVITY, NO_LINE)
        what = "no known unit"
    elif seen.unit is None:
        found.ask("what is |a| at rest? If counts, those of 1 g as the sensor's range has them", line)
        what = "no known unit"
    elif seen.rest is None:
        found.ask(f"a guess: never at rest, {what} is nearest; let it lie still and run this again", line)
        what += " at a guess"
    elif not seen.is_near:
        found.ask(f"a guess: |a| at rest is {magnitude:.4g}, none of the known units; {what} is nearest", line)
        what += " at a guess"
    found.units.append(f"acc: not declared; {_rest(seen)}, so {what}")


def _say_sign(found: Finding, trial: Trial) -> None:
    """Of apps that turn accelerations round on iOS, where alone they give them in g."""
    if trial.profile.acc_sign is None:
        return
    sign = -1 if found.profile.get("acc_unit") == "g" else 1
    found.profile["acc_sign"] = sign
    found.ask("1 on Android, or iOS with standardised frames; -1 on iOS as delivered, then in g", f"acc_sign: {sign}")


def _say_gravity(found: Finding, trial: Trial, seen: AccFinding) -> None:
    """Of apps that call accelerations the same with and without gravity."""
    if trial.profile.gravity == DeviceProfile().gravity:
        return
    is_there = _magnitude(seen) > LEAST_WITH_GRAVITY * STANDARD_GRAVITY_MS2
    found.profile["gravity"] = "included" if is_there else "excluded"
    if is_there:
        found.ask("the app calls accelerations alike with and without gravity; |a| says with: check it", GRAVITY_LINE)
    else:
        found.gravity = f"excluded: {_rest(seen)}"
        found.ask(NO_GRAVITY, NO_LINE)


def _say_raw_gyr(found: Finding, raw: Signals, gravity: float) -> None:
    seen = gyr_finding(raw.t_ns, raw.acc, raw.gyr, gravity)
    unit = seen.unit or USUAL_GYR.get(str(found.codec))
    if unit is None:
        found.units.append("gyr: not declared, and nothing tells its unit")
        found.ask("declare it: rad/s, deg/s or mdeg/s; or turn the device slowly and run this again", "gyr_unit: ")
        return
    counts = f", {seen.counts_per_unit:g} counts each" if seen.counts_per_unit else ""
    why = {
        "turns": "so it turns as gravity does",
        "rest": "no rad/s is so large at rest",
        "size": "it is larger than any rad/s",
        "nothing": f"a guess, as {found.codec} sensors mostly send",
    }[seen.why]
    found.units.append(f"gyr: not declared; {unit}{counts}: {why}")
    found.profile["gyr_unit"] = unit
    if seen.counts_per_unit:
        found.profile["gyr_counts_per_unit"] = seen.counts_per_unit
        found.ask("131, 65.5, 32.8 or 16.4, by the range that is set", f"gyr_counts_per_unit: {seen.counts_per_unit:g}")
    elif seen.why != "turns":
        found.ask(f"{why}; turn the device slowly in all directions and run this again to be sure", f"gyr_unit: {unit}")
    if seen.is_mirrored:
        found.ask("gyroscope and accelerometer turn against each other: not right-handed?", "axes: [x, y, z]")
