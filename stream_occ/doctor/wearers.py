"""Samples of one wearer, of one topic or of several that have a sensor each, and what they tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.doctor.findings import Finding, Question, Setting
from stream_occ.doctor.reading import LONGEST_SKEW_S, Samples, Source, Trial, read
from stream_occ.doctor.units import Signals, say_units
from stream_occ.samples import NS_PER_S, FloatArray

DEFAULT_SKEW_S = 1.0  # of a configuration
MOST_GIVEN_UP = 0.02  # of the samples: more than begin and end of a stream cost
WAITS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MARGIN = 1.5  # another day's network is no quieter
SHIFT_S = 0.05  # a fall's impact is no longer
MOST_LATE = 0.001  # of the samples


@dataclass(frozen=True, slots=True)
class Probe:
    """A topic that a codec reads. source: with the stamps that its input will have; samples: on its own clock."""

    finding: Finding
    trial: Trial
    source: Source
    samples: Samples

    @property
    def sensors(self) -> frozenset[str]:
        """Those that came here, empty where samples are whole."""
        return frozenset() if self.samples.blocks else frozenset(self.samples.apart)


@dataclass(frozen=True, slots=True)
class Order:
    """Of one wearer: samples older than one before them, by how long, and how long one sensor waits for the other."""

    n_samples: int
    late_s: FloatArray
    skew_s: float


def wearers(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Topics of one wearer each: alone, or one of each sensor, alike but for one level."""
    groups = [[probe] for probe in probes if not probe.sensors]
    apart: dict[tuple[str | None, int, str], list[Probe]] = defaultdict(list)
    for probe in probes:
        row = probe.finding.topic.split("/")
        for i in range(len(row)) if probe.sensors else ():
            apart[probe.finding.codec, i, "/".join([*row[:i], "", *row[i + 1 :]])].append(probe)
    taken: set[str] = set()
    for (_, level, _), members in apart.items():
        topics = {probe.finding.topic for probe in members}
        if topics & taken or not _is_complete([probe.sensors for probe in members]):
            continue
        taken |= topics
        groups.append(members)
        for probe in members:
            probe.finding.part = (level, probe.finding.topic.split("/")[level])
            probe.finding.joined_with = sorted(topics - {probe.finding.topic})
    groups += [[probe] for probe in probes if probe.sensors and probe.finding.topic not in taken]
    return groups


def _is_complete(sensors: Sequence[frozenset[str]]) -> bool:
    """True where each sensor comes once and none is missing."""
    found = [sensor for some in sensors for sensor in some]
    return sorted(found) in (["acc", "gyr"], ["gravity", "gyr", "linear"])


def look_into(group: Sequence[Probe]) -> Order | None:
    """Says units and order of a wearer's samples in its findings; None where no sample is whole."""
    sources = [probe.source for probe in group]
    for skew_s in (DEFAULT_SKEW_S, 2.0, 5.0, LONGEST_SKEW_S):
        served = read(sources, max_skew_s=skew_s)
        if served.n_given_up <= MOST_GIVEN_UP * len(served.t_ns):
            break
    if len(group) > 1:
        _say_shift(group)
    own = group[0].samples if group[0].samples.blocks else served
    if not own.blocks:
        for probe in group:
            sensors = ", ".join(sorted(probe.sensors)) or "nothing"
            text = f"{sensors} alone came here: accelerometer and gyroscope are both needed"
            probe.finding.questions = [Question(text, f"codec: {probe.finding.codec}")]
            probe.finding.codec = probe.finding.timing = None
        return None
    named = {block.device_id for block in own.blocks} - {"device"}
    for probe in group:
        probe.finding.named = next(iter(named)) if len(named) == 1 else None
    say_units([(probe.finding, probe.trial, probe.sensors) for probe in group], Signals.of(own.blocks))
    order = _order(served, skew_s)
    if order.late_s.size:
        group[
            0
        ].finding.order = (
            f"{order.late_s.size} of {order.n_samples} came after newer ones, by up to {order.late_s.max():.2g} s"
        )
    return order


def _say_shift(group: Sequence[Probe]) -> None:
    """Asks about sensors that arrive apart and have no other stamps: so far apart do they seem to be measured."""
    timings = [probe.finding.timing for probe in group if probe.source.profile.stamps == "arrival"]
    skews_s = [times.skew_s for times in timings if times is not None]
    shift_s = max(skews_s, default=0.0) - min(skews_s, default=0.0)
    if SHIFT_S < shift_s < LONGEST_SKEW_S:  # longer ones are of clocks that have nothing to do with each other
        text = (
            f"stamped at arrival the sensors lie {shift_s:.2g} s apart, as their messages do; send UTC, then: message"
        )
        group[0].finding.ask(text, "stamps: arrival")


def _order(samples: Samples, skew_s: float) -> Order:
    t_ns = samples.t_ns
    behind_s = (np.maximum.accumulate(t_ns) - t_ns) / NS_PER_S
    return Order(len(t_ns), behind_s[behind_s > 0], skew_s)


def stream_settings(orders: Sequence[Order | None]) -> dict[str, Setting]:
    """What the section `stream` must say beside its defaults."""
    found = {}
    known = [order for order in orders if order is not None]
    wait_s = max((_wait_s(order) for order in known), default=0.0)
    if wait_s > 0:
        n_late, n = sum(order.late_s.size for order in known), sum(order.n_samples for order in known)
        found["reorder_s"] = Setting(wait_s, f"else {n_late} of {n} samples are dropped as late; decisions wait for it")
    skew_s = max((order.skew_s for order in known), default=DEFAULT_SKEW_S)
    if skew_s > DEFAULT_SKEW_S:
        found["max_skew_s"] = Setting(skew_s, "one sensor comes so much later than the other")
    return found


def _wait_s(order: Order) -> float:
    """The shortest of WAITS_S that leaves hardly any sample late; 0 where none need be waited for."""
    waits = (0.0, *WAITS_S)
    late = [int((order.late_s * MARGIN > wait_s).sum()) for wait_s in waits]
    return next(
        (wait_s for wait_s, n in zip(waits, late, strict=True) if n - late[-1] <= MOST_LATE * order.n_samples), 0.0
    )
