"""Test detectors on recorded falls of people they were not trained on, beside plain baselines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_occ.cli._common import JsonOption, progress, write_json

if TYPE_CHECKING:
    from stream_occ.evaluation import Evaluation, Protocol

EXAMPLES = (
    "stream-occ evaluate --dataset mobifall --data mobifall.zip",
    "stream-occ evaluate --dataset weda-fall --data WEDA-FALL --json weda.json",
    "stream-occ evaluate --dataset mobifall --data mobifall.zip --methods 'default,knn5,11NN(theta)-RP'",
    "stream-occ evaluate --dataset mobifall --data mobifall.zip --model-config train.yaml --methods default",
)
DEFAULT_METHODS = "default,peak_acc,knn5,mahalanobis,isolation_forest"


def command(
    dataset: Annotated[str, typer.Option(metavar="NAME", help="Data set: mobifall, weda-fall, recording, ...")],
    data: Annotated[Path, typer.Option(metavar="PATH", help="Its folder or archive.")],
    variant: Annotated[str | None, typer.Option(metavar="NAME", help="Version of the set, e.g. 25Hz.")] = None,
    model_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Training configuration of the method 'default'.")
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods, separated by commas: baselines and presets.")
    ] = DEFAULT_METHODS,
    reject_share: Annotated[
        float, typer.Option(help="Share of training people's normal trials (windows) that a threshold rejects.")
    ] = 0.05,
    max_false_alarms_per_hour: Annotated[
        float, typer.Option(help="Alarm budget on training people behind the pipeline figures.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the groups of people, the fits and the intervals.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores. Changes no figure.")] = -1,
    json_path: JsonOption = None,
) -> None:
    """Test detectors on recorded falls, with people held out.

    Five groups of people: a model learns from the normal recordings of four and is tested on the fifth. Falls are for
    testing alone. Thresholds come from training people held out in turn. Figures carry 95 % intervals by bootstrap
    over people. docs/evaluation.md says what each one means.
    """
    protocol = _protocol(reject_share, max_false_alarms_per_hour, seed, jobs)
    evaluation = _run(dataset, data, variant, model_config, methods, protocol, jobs)
    if json_path is not None:
        write_json(json_path, evaluation.to_json())
    if str(json_path) != "-":
        from stream_occ.evaluation.tables import summary_line, table_lines

        sys.stdout.write("\n".join([summary_line(evaluation), "", *table_lines(evaluation)]) + "\n")


def _protocol(reject_share: float, max_false_alarms_per_hour: float, seed: int, jobs: int) -> Protocol:
    from stream_occ.errors import UsageError
    from stream_occ.evaluation import Protocol

    if not 0.0 <= reject_share < 1.0:
        raise UsageError("--reject-share", "be at least 0 and below 1", f"{reject_share}", "The usual value is 0.05")
    if not 0.0 <= max_false_alarms_per_hour < float("inf"):
        got = f"{max_false_alarms_per_hour}"
        raise UsageError("--max-false-alarms-per-hour", "be 0 or more", got, "The usual value is 1")
    if jobs == 0:
        raise UsageError("--jobs", "be a number of processes, or -1 for all cores", "0", "Leave it out")
    return Protocol(reject_share=reject_share, max_false_alarms_per_hour=max_false_alarms_per_hour, seed=seed)


def _run(
    dataset: str,
    data: Path,
    variant: str | None,
    model_config: Path | None,
    methods: str,
    protocol: Protocol,
    jobs: int,
) -> Evaluation:
    from stream_occ.datasets import open_dataset
    from stream_occ.evaluation import evaluate
    from stream_occ.evaluation.extraction import extract_trials
    from stream_occ.evaluation.presets import methods_of
    from stream_occ.training.config import load_training_config

    config = load_training_config(model_config)
    if config.people or config.exclude_people or config.activities or config.exclude_activities or config.data:
        sys.stderr.write(f"{model_config}: its data, people and activities are not used here: all of --data is\n")
    names = [name.strip() for name in methods.split(",") if name.strip()]
    chosen, front_end = methods_of(names, config)
    with progress() as report, open_dataset(dataset, data, variant=variant) as opened:
        trials = extract_trials(
            opened.iter_recordings(), front_end, n_jobs=jobs, n_expected=opened.n_files, progress=report
        )
        for line in opened.report.lines():
            if not line.startswith(" "):  # files one by one are for `train` to name
                sys.stderr.write(f"{line}\n")
        return evaluate(dataset, trials, chosen, protocol, n_jobs=jobs, progress=report)
