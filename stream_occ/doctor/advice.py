"""From what was heard to what is said: codec, profile and stamps of each topic, and what its samples are."""

from __future__ import annotations

from dataclasses import replace

from stream_occ.alert_types import EventPolicy
from stream_occ.codecs import Codec
from stream_occ.doctor.findings import Diagnosis, Finding
from stream_occ.doctor.heard import Heard, Topic
from stream_occ.doctor.inputs import make_inputs
from stream_occ.doctor.reading import ASSUMED_RATE_HZ, Samples, Source, Trial, read, try_codecs, usable_codecs
from stream_occ.doctor.signals import Timing, timing
from stream_occ.doctor.wearers import Probe, look_into, stream_settings, wearers
from stream_occ.samples import NS_PER_S

CLOCK_OFF_S = 5.0  # from here on a device's clock is asked about
CLOCK_STRANGE_S = 86_400.0  # and from here on its stamps are no time of day
MIN_SHARE = 0.5


def diagnose(heard: Heard) -> Diagnosis:
    """All that is found out about all topics."""
    codecs, missing = usable_codecs()
    probes = [_probe(topic, codecs) for _, topic in sorted(heard.topics.items())]
    orders = [look_into(group) for group in wearers([probe for probe in probes if isinstance(probe, Probe)])]
    findings = [probe.finding if isinstance(probe, Probe) else probe for probe in probes]
    inputs = make_inputs(findings)
    return Diagnosis(
        seconds=heard.seconds,
        findings=findings,
        inputs=inputs,
        stream=stream_settings(orders),
        questions=[question for finding in findings for question in finding.questions],
        n_elsewhere=heard.n_elsewhere,
        n_own=heard.n_own,
        n_lost=heard.n_lost,
        codecs_missing=missing,
    )


def _probe(topic: Topic, codecs: dict[str, Codec]) -> Probe | Finding:
    """The finding of a topic; with what reads it, where a codec does."""
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
    source = Source(topic.kept, codecs[best.codec], best.profile)
    samples = read([source])
    if best.profile.nominal_rate_hz is not None:
        rate_hz = _counted_rate_hz(topic, samples)
        source = replace(source, profile=replace(best.profile, nominal_rate_hz=rate_hz))
        samples = read([source])
        found.profile["nominal_rate_hz"] = rate_hz
        text = "not said by the messages, but counted as they came; their stamps hang on it"
        found.ask(text, f"nominal_rate_hz: {rate_hz:g}")
    found.codec, found.n_read = best.codec, len(topic.kept) - samples.n_refused.total()
    found.refused = dict(samples.n_refused)
    found.also = [trial.codec for trial in trials[1:] if trial.share == best.share]
    if found.also:
        found.ask(f"{' and '.join(found.also)} would read it too", f"codec: {best.codec}")
    found.timing = timing(samples.t_ns, samples.skew_ns)
    _say_stamps(found, best, found.timing)
    if found.profile.get("stamps", "message") != source.profile.stamps:
        source = replace(source, profile=replace(source.profile, stamps="arrival"))
    return Probe(found, best, source, samples)


def _counted_rate_hz(topic: Topic, samples: Samples) -> float:
    """Samples a second of arrival, to three digits; what a codec assumes where there is one message alone."""
    span_s = (topic.kept[-1][1] - topic.kept[0][1]) / NS_PER_S
    n = len(samples.t_ns)
    share = (len(topic.kept) - 1) / len(topic.kept)  # the first message's samples came before it
    rate_hz = n * share / span_s if span_s > 0 and n else ASSUMED_RATE_HZ
    return float(f"{min(max(rate_hz, 1.0), 1000.0):.3g}")


def _is_one_value(payload: bytes) -> bool:
    """True for a battery level or `online`: such a message is no damaged one of ours."""
    return len(payload) < 40 and not any(sign in payload for sign in b",;{[\t")


def _say_stamps(found: Finding, best: Trial, times: Timing) -> None:
    late = f"last stamps {abs(times.skew_s):.3g} s {'before' if times.skew_s >= 0 else 'after'} arrival"
    if best.profile.stamps == "arrival":
        found.stamps = "none that can be used: each message counts as sampled when it came"
        found.profile["stamps"] = "arrival"
        if best.reasons:
            found.stamps += f" ({', '.join(best.reasons)})"
    elif abs(times.skew_s) > CLOCK_STRANGE_S:
        found.stamps = f"no time of day: {late}"
        found.profile["stamps"] = "arrival"
        found.ask("an uptime, or a clock that was never set; with a right clock: message", "stamps: arrival")
    elif times.n_doubled > times.n_samples // 2:
        found.stamps = f"{times.n_doubled} of {times.n_samples} stamps come twice: too coarse"
        found.profile["stamps"] = "arrival"
        found.ask("several samples have one stamp; send finer stamps, then: message", "stamps: arrival")
    else:
        found.stamps = f"UTC, {late}"
        if times.skew_s > EventPolicy().live_within_s and times.skew_spread_s <= CLOCK_OFF_S:
            found.profile["clock"] = "own"
            text = f"a fall is history {times.skew_s:.0f} s later; own makes it raise an alarm"
            found.ask(f"{text}. A backlog looks alike: listen again later; with a right clock: utc", "clock: own")
        elif abs(times.skew_s) > CLOCK_OFF_S:
            found.ask(
                f"the device's clock, or its batches, are {times.skew_s:.0f} s off; set the clock",
                "stamps: message",
            )
