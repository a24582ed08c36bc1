"""Test detectors on recorded falls of people they were not trained on, beside plain baselines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stream_occ.cli._common import (
    JsonOption,
    ProgressReport,
    QuietOption,
    check_apart,
    check_output,
    is_told,
    progress,
    write_json,
)
from stream_occ.errors import visible

if TYPE_CHECKING:
    from stream_occ.datasets import Dataset
    from stream_occ.evaluation import Evaluation, Method, Protocol, Trial
    from stream_occ.evaluation.extraction import FrontEnd
    from stream_occ.evaluation.html_report import Provenance

EXAMPLES = (
    "stream-occ evaluate --dataset mobifall --data mobifall.zip",
    "stream-occ evaluate --dataset weda-fall --data WEDA-FALL --json weda.json --html weda.html",
    "stream-occ evaluate --dataset mobifall --data mobifall.zip --methods 'default,knn5,11NN(theta)-RP'",
    "stream-occ evaluate --dataset mobifall --data mobifall.zip --model-config train.yaml --methods default",
    "stream-occ evaluate --train-dataset weda-fall --train-data WEDA-FALL --dataset smartfallmm --data SmartFallMM",
)
DEFAULT_METHODS = "default,peak_acc,knn5,mahalanobis,isolation_forest"


class Source(NamedTuple):
    """A data set to read."""

    dataset: str
    path: Path
    variant: str | None

    def open(self) -> Dataset:
        """The data set; DataError where it cannot be."""
        from stream_occ.datasets import open_dataset

        return open_dataset(self.dataset, self.path, variant=self.variant)

    def describe(self) -> str:
        """Name, path, version."""
        return f"{self.dataset}, {self.path}" + ("" if self.variant is None else f", {self.variant}")


def _checked_html(path: Path | None) -> Path | None:
    if path is not None:
        check_output("--html", path, makes_folder=False)
    return path


def command(
    context: typer.Context,
    dataset: Annotated[str, typer.Option(metavar="NAME", help="Data set: mobifall, weda-fall, recording, ...")],
    data: Annotated[Path, typer.Option(metavar="PATH", help="Its folder or archive.")],
    variant: Annotated[str | None, typer.Option(metavar="NAME", help="Version of the set, e.g. 25Hz.")] = None,
    train_dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Train on all people of this set, test on all of --dataset.")
    ] = None,
    train_data: Annotated[Path | None, typer.Option(metavar="PATH", help="Its folder or archive.")] = None,
    train_variant: Annotated[str | None, typer.Option(metavar="NAME", help="Version of the training set.")] = None,
    any_placement: Annotated[
        bool, typer.Option("--any-placement", help="Also where the two sets were worn at different places.")
    ] = False,
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
    quiet: QuietOption = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="PATH", callback=_checked_html, help="Write a report with plots and tables to PATH."),
    ] = None,
) -> None:
    """Test detectors on recorded falls, with people held out.

    Five groups of people: a model learns from the normal recordings of four and is tested on the fifth; with
    --train-dataset it learns from everybody of that set and is tested on all of --dataset. Falls are for testing
    alone. Thresholds come from training people held out in turn. Figures carry 95 % intervals by bootstrap over
    people. docs/evaluation.md says what each one means.
    """
    from stream_occ.evaluation.tables import summary_line, table_lines, warning_lines

    protocol = _protocol(reject_share, max_false_alarms_per_hour, seed, jobs)
    tested = Source(dataset.replace("_", "-"), data, variant)
    trained = _training_source(train_dataset, train_data, train_variant, any_placement)
    read = [
        ("--model-config", model_config),
        *((f"data of {own.dataset}", own.path) for own in (tested, trained) if own),
    ]
    check_apart([("--json", None if str(json_path) == "-" else json_path), ("--html", html)], read)
    evaluation, remarks = _run(tested, trained, any_placement, model_config, methods, protocol, jobs, is_quiet=quiet)
    if json_path is not None:
        write_json(json_path, evaluation.to_json())
    if html is not None:
        from stream_occ.evaluation.html_report import render_html
        from stream_occ.page import write_page

        provenance = _provenance(context, tested, trained, remarks)
        write_page(render_html(evaluation, protocol, provenance), html, flag="--html")
    for line in warning_lines(evaluation):
        sys.stderr.write(f"warning: {visible(line)}\n")
    if is_told(json_path, quiet):
        lines = [summary_line(evaluation), "", *table_lines(evaluation)]
        sys.stdout.write("\n".join(map(visible, lines)) + "\n")


def _training_source(dataset: str | None, data: Path | None, variant: str | None, any_placement: bool) -> Source | None:
    from stream_occ.errors import UsageError

    if dataset is not None and data is not None:
        return Source(dataset.replace("_", "-"), data, variant)
    given = {
        "--train-dataset": dataset is not None,
        "--train-data": data is not None,
        "--train-variant": variant is not None,
        "--any-placement": any_placement,
    }
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise UsageError(
            ", ".join(names), "come with both --train-dataset and --train-data", "not both", "Give both, or neither"
        )
    return None


def _protocol(reject_share: float, max_false_alarms_per_hour: float, seed: int, jobs: int) -> Protocol:
    from stream_occ.errors import UsageError
    from stream_occ.evaluation import Protocol

    if not 0.0 <= reject_share < 1.0:
        raise UsageError("--reject-share", "be at least 0 and below 1", f"{reject_share}", "The usual value is 0.05")
    if not 0.0 <= max_false_alarms_per_hour < float("inf"):
        got = f"{max_false_alarms_per_hour}"
        raise UsageError("--max-false-alarms-per-hour", "be 0 or more", got, "The usual value is 1")
    if jobs == 0 or jobs < -1:
        raise UsageError("--jobs", "be a number of processes, or -1 for all cores", f"{jobs}", "Leave it out")
    return Protocol(reject_share=reject_share, max_false_alarms_per_hour=max_false_alarms_per_hour, seed=seed)


def _run(
    tested: Source,
    trained: Source | None,
    any_placement: bool,
    model_config: Path | None,
    methods: str,
    protocol: Protocol,
    jobs: int,
    *,
    is_quiet: bool,
) -> tuple[Evaluation, list[str]]:
    """The evaluation, and what its reader must know of the data; told on stderr as soon as it is known."""
    from dataclasses import replace

    from stream_occ.evaluation import TrainingSet, evaluate
    from stream_occ.evaluation.presets import methods_of
    from stream_occ.evaluation.transfer import check_placements, known_placements
    from stream_occ.training.config import load_training_config

    config = load_training_config(model_config)
    if config.people or config.exclude_people or config.activities or config.exclude_activities or config.data:
        sys.stderr.write(f"{model_config}: its data, people and activities are not used here: all of --data is\n")
    names = [name.strip() for name in methods.split(",") if name.strip()]
    chosen, front_end = methods_of(names, config)
    protocol = replace(protocol, policy=protocol.policy.for_windows(front_end.window_s, front_end.hop_s))
    with ExitStack() as stack:
        opened = stack.enter_context(tested.open())
        source = None if trained is None else stack.enter_context(trained.open())
        if source is not None:  # whole sets take minutes to read: a mismatch is told before
            check_placements(_first_placement(source), _first_placement(opened), any_placement=any_placement)
        report = stack.enter_context(progress(is_quiet=is_quiet))
        trials = _extract(opened, front_end, jobs, report, normals_only=False)
        if trained is None or source is None:
            _tell_landmarks(chosen, trials)
            return evaluate(tested.dataset, trials, chosen, protocol, n_jobs=jobs, progress=report), []
        training_set = TrainingSet(trained.dataset, _extract(source, front_end, jobs, report, normals_only=True))
        _tell_landmarks(chosen, training_set.trials)
        worn = [known_placements(own) for own in (training_set.trials, trials)]
        remarks = check_placements(*worn, any_placement=any_placement)
        sys.stderr.writelines(f"warning: {line}\n" for line in remarks)
        evaluation = evaluate(
            tested.dataset, trials, chosen, protocol, trained=training_set, n_jobs=jobs, progress=report
        )
        return evaluation, remarks


def _tell_landmarks(methods: Sequence[Method], trials: Sequence[Trial]) -> None:
    from stream_occ.evaluation.presets import note_of_landmarks

    n_windows = sum(len(own) for own in trials if not own.is_fall)
    sys.stderr.writelines(f"{line}\n" for line in note_of_landmarks(methods, n_windows))


def _first_placement(opened: Dataset) -> set[str]:
    first = next(iter(opened.iter_recordings()), None)
    return set() if first is None or first.placement == "unknown" else {first.placement}


def _extract(
    opened: Dataset, front_end: FrontEnd, jobs: int, report: ProgressReport, *, normals_only: bool
) -> list[Trial]:
    from stream_occ.evaluation.extraction import extract_trials

    recordings = (own for own in opened.iter_recordings() if not (normals_only and own.is_fall))
    trials = extract_trials(
        recordings,
        front_end,
        n_jobs=jobs,
        n_expected=0 if normals_only else opened.n_files,
        progress=lambda stage, done, total: report(f"{stage} of {opened.name}", done, total),
    )
    for line in opened.report.lines():
        if not line.startswith(" "):  # files one by one are for `train` to name
            sys.stderr.write(f"{line}\n")
    return trials


def _provenance(context: typer.Context, tested: Source, trained: Source | None, remarks: list[str]) -> Provenance:
    import platform
    from importlib.metadata import version

    from stream_occ import __version__
    from stream_occ.evaluation.html_report import Provenance

    versions = [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn")]
    data = [("Tested on", tested.describe())]
    if trained is not None:
        data.append(("Trained on normal recordings of", trained.describe()))
    return Provenance(
        command=_command_line(context),
        data=data,
        versions=[("stream_occ", __version__), ("python", platform.python_version()), *versions],
        remarks=remarks,
    )


def _command_line(context: typer.Context) -> str:
    """The command with all options that were given, whatever wrote them."""
    words = ["stream-occ", "evaluate"]
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[str(option.name)]
        words += [option.opts[0]] if value is True else [option.opts[0], str(value)]
    return shlex.join(words)
