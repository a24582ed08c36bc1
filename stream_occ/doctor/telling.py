"""A diagnosis as text for people, and the configuration as YAML with its questions beside the lines they are about."""

from __future__ import annotations

import yaml

from stream_occ.config import Config, MqttConfig
from stream_occ.doctor.findings import Diagnosis, Finding, Question


def report(diagnosis: Diagnosis) -> str:
    """Lines for each topic."""
    lines = []
    for finding in diagnosis.findings:
        lines += [*_lines(finding), ""]
    if not diagnosis.findings:
        lines += ["no message came", ""]
    if diagnosis.n_own:
        lines.append(f"{diagnosis.n_own} messages of our own topics were passed over")
    if diagnosis.n_elsewhere:
        lines.append(f"{diagnosis.n_elsewhere} messages on further topics were only counted: narrow --topic")
    if diagnosis.n_lost:
        lines.append(f"{diagnosis.n_lost} messages came too fast and were not looked at: narrow --topic")
    if diagnosis.codecs_missing:
        lines.append(f"not tried: {', '.join(diagnosis.codecs_missing)}, which need pip install 'stream_occ[codecs]'")
    return "\n".join(map(_shown, lines)).rstrip() + "\n"


def _lines(finding: Finding) -> list[str]:
    head = f"{finding.n_messages} message{'' if finding.n_messages == 1 else 's'}"
    if finding.n_messages > 1:
        head += f", {finding.per_s:.3g}/s, {finding.mean_bytes:.0f} bytes (largest {finding.largest_bytes})"
    if finding.n_retained:
        head += f"; {finding.n_retained} retained, which are never taken for data"
    lines = [finding.topic, f"  {head}"]
    if finding.timing is None:
        lines += [f"  {codec} refuses: {text}" for codec, text in finding.refusals.items()]
        if finding.n_messages and not finding.refusals and not finding.questions:
            lines.append("  no codec knows this format")
        if not finding.n_messages and finding.n_retained:
            lines.append("  have the device publish without retain: nothing else came, and there is nothing to read")
        return lines + [_question(question) for question in finding.questions]
    lines.append(f"  codec {finding.codec or 'none'}: {finding.n_read} messages read{_refused(finding)}")
    lines += [f"  {text}" for text in finding.units]
    if finding.gravity:
        lines.append(f"  gravity: {finding.gravity}")
    times = finding.timing
    if times.rate_hz is not None and times.jitter_ms is not None:
        rate = f"{times.rate_hz:.1f} Hz, jitter {times.jitter_ms:.2g} ms"
        lines.append(f"  rate: {rate}, {times.n_gaps} gaps, {times.n_doubled} doubled stamps of {times.n_samples}")
    lines.append(f"  stamps: {finding.stamps}")
    if finding.order:
        lines.append(f"  order: {finding.order}")
    if finding.joined_with:
        lines.append(f"  joined with {', '.join(finding.joined_with)}: a sensor each")
    if finding.device is not None:
        lines.append(f"  device: {finding.device} of {finding.pattern}")
    return lines + [_question(question) for question in finding.questions]


def _refused(finding: Finding) -> str:
    reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(finding.refused.items()))
    return f", refused: {reasons}" if reasons else ""


def _question(question: Question) -> str:
    return f"  ? {question.text}" + (f". Set: {question.line}" if question.line else "")


def _shown(text: str) -> str:
    """Without control characters: a topic must not write to the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def configuration(diagnosis: Diagnosis, config: Config, *, has_file: bool) -> str:
    """YAML that `stream-occ config check` takes; the broker too, unless it is in a file of the user's."""
    lines = [] if has_file else _broker(config.mqtt)
    lines.append("inputs:")
    for entry in diagnosis.inputs:
        questions: list[Question] = entry["questions"]
        unset = dict.fromkeys(question.text for question in questions if not question.line)
        lines += [f"  # ? {_shown(text)}" for text in unset]
        lines.append(f"  - pattern: {_quoted(entry['pattern'])}{_mark(questions, 'pattern')}")
        lines.append(f"    codec: {entry['codec']}{_mark(questions, 'codec')}")
        unknown = [key for key in ("gyr_unit",) if key not in entry["profile"] and _mark(questions, key)]
        if entry["profile"]:
            lines.append("    profile:")
        for key, value in entry["profile"].items():
            lines.append(f"      {key}: {value}{_mark(questions, key)}")
        lines += [f"      # {key}: {_mark(questions, key).lstrip()}" for key in unknown]
    if diagnosis.stream:
        lines.append("stream:")
    lines += [f"  {key}: {setting.value:g}  # {setting.why}" for key, setting in diagnosis.stream.items()]
    return "\n".join(lines) + "\n"


def _mark(questions: list[Question], key: str) -> str:
    """A comment with the first question about a key."""
    text = next((question.text for question in questions if question.line.partition(":")[0] == key), None)
    return "" if text is None else f"  # ? {_shown(text)}"


def _broker(mqtt: MqttConfig) -> list[str]:
    lines = ["mqtt:", f"  host: {_quoted(mqtt.host)}", f"  port: {mqtt.port}"]
    if mqtt.username is not None:
        lines.append(f"  username: {_quoted(mqtt.username)}")
    if mqtt.password_file is not None:
        lines.append(f"  password_file: {_quoted(str(mqtt.password_file))}")
    if mqtt.tls.enabled:
        lines += ["  tls:", "    enabled: true"]
        files = mqtt.tls.model_dump(mode="json", exclude={"enabled"}, exclude_none=True)
        lines += [f"    {key}: {_quoted(value)}" for key, value in files.items()]
    return lines


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=1_000_000).strip()
