"""Set a model's threshold by a budget of false alarms a day, and say what the recordings support."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_occ.cli._common import (
    JsonOption,
    QuietOption,
    check_output,
    counted,
    is_told,
    names_in,
    progress,
    self_test_rows,
    write_json,
)
from stream_occ.errors import UsageError, visible

if TYPE_CHECKING:
    from stream_occ.alarm_budget import Claim
    from stream_occ.evaluation.budget import Evidence
    from stream_occ.events import EventPolicy
    from stream_occ.scoring import Model

EXAMPLES = (
    "stream-occ calibrate --model model.occ --from recording --data days/ --max-false-alarms-per-day 2 --out b.occ",
    "stream-occ calibrate --model model.occ --dataset mobifall --data mobifall.zip --people 9,10 "
    "--max-false-alarms-per-day 24 --json -",
    "stream-occ calibrate --model a.occ --dataset csv --data days/ --max-false-alarms-per-day 1 --strict --out b.occ",
)


MAX_REMARKS = 10
MUCH_MOTIONLESS = 0.25  # share of windows: sleepers are motionless for a while, devices on a table always
MAX_PER_DAY = 86_400  # one a second, as in training


def command(
    model: Annotated[Path, typer.Option(metavar="MODEL.occ", help="Model file, read alone.")],
    dataset: Annotated[
        str, typer.Option("--dataset", "--from", metavar="NAME", help="Data set: recording, csv, mobifall, ...")
    ],
    data: Annotated[Path, typer.Option(metavar="PATH", help="Its folder or archive.")],
    max_false_alarms_per_day: Annotated[
        float, typer.Option(metavar="N", help="Budget: alarms in 24 worn hours like those recorded.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="NEW.occ", help="Model with the new threshold. Without it: a report alone.")
    ] = None,
    variant: Annotated[str | None, typer.Option(metavar="NAME", help="Version of the set, e.g. 25Hz.")] = None,
    people: Annotated[str | None, typer.Option(metavar="A,B", help="These people alone.")] = None,
    exclude_people: Annotated[str | None, typer.Option(metavar="A,B", help="Leave these people out.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration: its events section is used.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Set a threshold that these hours support, or none (exit code 1).")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model must be signed with this key; so is the new one.")
    ] = None,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
) -> int:
    """Set a model's threshold by a budget of false alarms a day.

    The recordings must be of people who are not the training people. Falls in them are left out. The whole pipeline
    runs over the rest, and the threshold becomes the lowest one whose alarms stay within the budget for these hours.
    The report says what rate the hours support with 95 % confidence, and how many more hours the budget needs.
    docs/calibration.md says what each figure means.
    """
    from stream_occ import alarm_budget
    from stream_occ.artifacts import load_model, read_key, save_model
    from stream_occ.cli import EXIT_FAILED, EXIT_OK
    from stream_occ.datasets import open_dataset
    from stream_occ.evaluation import budget

    per_day = max_false_alarms_per_day
    _check(per_day, model, out)
    key = None if key_file is None else read_key(key_file)
    policy = _policy(config)
    old = load_model(model, key=key)
    policy = policy.for_windows(old.window_s, old.hop_s)
    with progress(is_quiet=quiet) as report, open_dataset(dataset, data, variant=variant) as opened:
        evidence = budget.read_evidence(
            opened,
            old,
            people=names_in("--people", people) or (),
            exclude_people=names_in("--exclude-people", exclude_people) or (),
            progress=report,
        )
    may_overlap = budget.may_overlap(old.metadata, evidence)
    n_allowed = alarm_budget.alarms_within(per_day, evidence.hours)
    if strict:
        n_allowed = alarm_budget.alarms_supporting(per_day, evidence.hours) or 0
    threshold = alarm_budget.lowest_threshold(evidence.watched, policy, n_allowed)
    claim = alarm_budget.claim(evidence.watched, threshold, policy, per_day, datasets=evidence.datasets)
    summary = _summary(evidence, claim, threshold, old, may_overlap)
    summary |= {"n_alarms_allowed": n_allowed, "policy": asdict(policy)}
    is_refused = strict and not claim.supported
    new_id = None
    if out is not None and not is_refused:
        new = replace(old, threshold=threshold, metadata={**old.metadata, "calibration": summary})
        new_id = save_model(new, out, self_test_X=self_test_rows(model), key=key)
    notes = _notes(evidence, claim, threshold, old, may_overlap)
    if json_path is not None:
        value = {**summary, "out": None if new_id is None else str(out), "model_id": new_id}
        write_json(json_path, {**value, "notes": notes})
    if is_told(json_path, quiet):
        lines = [*_lines(evidence, claim, summary), *(f"Note: {note}" for note in notes)]
        end = "Nothing was written: " + ("--strict" if is_refused else "no --out") + "."
        lines.append(end if new_id is None else f"Model {new_id} written to {out}.")
        sys.stdout.write("\n".join(map(visible, lines)) + "\n")
    return EXIT_FAILED if is_refused else EXIT_OK


def _check(per_day: float, model: Path, out: Path | None) -> None:
    if not 0.0 <= per_day <= MAX_PER_DAY:
        expected = f"be 0 to {MAX_PER_DAY}"
        raise UsageError("--max-false-alarms-per-day", expected, f"{per_day}", "Name a number of alarms a day")
    if out is not None:
        check_output("--out", out, makes_folder=False)
        if out.resolve() == model.resolve():
            raise UsageError("--out", "be another file than --model", str(out), "Name another file")


def _policy(config: Path | None) -> EventPolicy:
    """That of the configuration, or of the environment and the defaults."""
    from stream_occ.config import adjusted_config
    from stream_occ.events import EventPolicy

    unused = [{"pattern": "{device}", "codec": "json", "profile": "declared"}]  # a configuration must name an input
    return EventPolicy(**adjusted_config(config, inputs=unused if config is None else None).events.model_dump())


def _summary(evidence: Evidence, claim: Claim, threshold: float, old: Model, may_overlap: bool) -> dict[str, Any]:
    """What the new model's card says of its threshold; no names of people."""
    return {
        "rule": "alarm_budget",
        "value": threshold,
        "value_before": old.threshold,
        **claim.to_json(),
        "evidence_sha256": evidence.data_sha256,
        "n_recordings": len(evidence.watched),
        "n_windows": sum(one.scores.size for one in evidence.watched),
        "n_flagged_windows": sum(int((one.scores > threshold).sum()) for one in evidence.watched),
        "n_falls_left_out": evidence.n_falls,
        "n_filtered_out": evidence.n_filtered,
        "n_copies": evidence.n_copies,
        "n_too_short": evidence.n_too_short,
        "may_overlap_training": may_overlap,
        "calibrated_model_id": old.model_id,
    }


def _lines(evidence: Evidence, claim: Claim, summary: dict[str, Any]) -> list[str]:
    from stream_occ.alarm_budget import MAX_FLAGGED_SHARE, why_not_counted

    asked, hours = f"{claim.asked_per_day:g} a day", f"{claim.hours:.2f} h"
    return [
        f"{hours} of normal activity: {counted(claim.n_people, 'person', 'people')}, "
        f"{counted(len(evidence.watched), 'recording')}. Left out: "
        f"{counted(evidence.n_falls, 'fall recording')}, {evidence.n_filtered} by your filters, "
        f"{counted(evidence.n_copies, 'copy', 'copies')}, {evidence.n_too_short} too short for a window.",
        f"Threshold {summary['value']:.6g} (was {summary['value_before']:.6g}): "
        f"{counted(claim.n_alarms, 'alarm')} of {summary['n_alarms_allowed']} allowed (merged episodes; "
        f"{summary['n_flagged_windows']} of {counted(summary['n_windows'], 'window')} flagged, at most "
        f"{100 * MAX_FLAGGED_SHARE:.0f} %).",
        f"Rate: {claim.rate_per_day:.3g} a day, exact Poisson 95 % interval {claim.low:.3g} to {claim.high:.3g}; of "
        f"others like these expect up to {claim.expected_per_day:.3g}, with 95 % confidence at most {claim.upper:.3g} "
        "a day.",
        f"Supported: {'yes' if claim.supported else 'no'}, {asked} asked. {_hours_needed(claim)}",
        *([f"Evidence: {why_not_counted(claim.development)}."] if claim.development else []),
        f"People: {claim.n_people_with_alarms} of {claim.n_people} had an alarm; with 95 % confidence at most "
        f"{100 * claim.people_share_upper:.1f} % of people would in recordings like theirs.",
    ]


def _hours_needed(claim: Claim) -> str:
    if claim.hours_needed is None or claim.hours_more is None:
        return f"No number of hours supports a budget of {claim.asked_per_day:g}."
    if claim.development:
        return f"It takes {claim.hours_needed:.1f} h of others without an alarm."
    text = f"It takes {claim.hours_needed:.1f} h with so many alarms"
    if claim.supported:
        return f"{text}."
    text += f": {claim.hours_more:.1f} h more, without another alarm."
    if claim.n_alarms_supporting is not None:
        most = counted(claim.n_alarms_supporting, "alarm")
        text += f" --strict sets the threshold by what these hours support: {most} at most."
    return text


def _notes(evidence: Evidence, claim: Claim, threshold: float, old: Model, may_overlap: bool) -> list[str]:
    """What the figures do not say by themselves."""
    from stream_occ.alarm_budget import A_DAY, WHAT_COUNTS

    notes = [
        f"a day is {A_DAY}",
        f"the threshold must be chosen by people who are not the training people; {WHAT_COUNTS}",
    ]
    if evidence.n_refused_rows:
        notes.append(f"the loader refused {counted(evidence.n_refused_rows, 'row')}: they count for nothing")
    notes += evidence.remarks[:MAX_REMARKS]
    if len(evidence.remarks) > MAX_REMARKS:
        notes.append(f"... and {len(evidence.remarks) - MAX_REMARKS} more remarks of the loader")
    if may_overlap:
        remedy = "Leave them out there (train --exclude-people) and name them here (--people)"
        if "adaptation" in old.metadata:
            remedy = (
                "Of its wearer that is as it should be: an adapted model is calibrated on the same wearer, by other "
                "days than those it was adapted on. Name nobody else (--people)"
            )
        notes.append(
            "that these people are among the training people cannot be excluded: a model file does not name them. "
            + remedy
        )
    placement = str(old.metadata.get("placement", "unknown"))
    worn = evidence.placements - {"unknown"}
    if worn and placement not in ("", "unknown") and not worn <= set(placement.split("/")):
        notes.append(f"worn at {', '.join(sorted(worn))}, and the model was trained at {placement}")
    motionless = evidence.motionless_share
    if motionless >= MUCH_MOTIONLESS:
        notes.append(
            f"nothing at all moves in {100 * motionless:.0f} % of the windows: hours in which nobody wears the device "
            "support no budget. Leave them out"
        )
    if threshold > old.threshold:
        name, t_s = evidence.highest()
        notes.append(
            f"the threshold went up: the highest score is that of the window that ends {t_s:.1f} s into {name}. If "
            "that was a fall, leave its recording out: a threshold above it misses such falls"
        )
    if threshold < old.threshold and not claim.supported:
        notes.append(
            "the threshold went down on hours that do not support the budget: expect more alarms than before. --strict "
            "sets one that they support, or none"
        )
    if claim.n_people == 1:
        notes.append("one person: the figures are of this wearer on days like these, and say nothing of others")
    return notes
