"""What the programs of the gallery share: their options, whom they learn from and whom they show, how they save."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from simulators.sources import SyntheticLife
from simulators.synthetic import Wearer
from stream_occ.datasets import LoadReport, dataset_names, open_dataset
from stream_occ.samples import Recording

N_LEARNED_FROM = 3
SCRIPT = [("walking", 20.0), ("sitting", 15.0), ("walking", 10.0), ("fall_forward", 60.0)]


class Recordings:
    """Recordings in memory, as a data set that `train` takes; it leaves out falls by itself."""

    n_files = 0

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.name, self.report, self._recordings = "gallery", LoadReport("gallery"), recordings

    def iter_recordings(self) -> Iterator[Recording]:
        """In their order."""
        return iter(self._recordings)


def options(about: str | None, out: str, argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; the program's docstring is its help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=out, metavar="FILE.svg")
    parser.add_argument("--dataset", choices=dataset_names(), help="recorded people in place of simulated ones")
    parser.add_argument("--data", help="the folder or zip archive of the data set")
    parser.add_argument("--minutes", type=float, default=4.0, help="simulated life of each wearer to learn from")
    given = parser.parse_args(argv)
    if (given.dataset is None) != (given.data is None):
        parser.error("--dataset and --data go together")
    return given


def people(given: argparse.Namespace, *, n_lives: int = 0) -> tuple[Recordings, list[Recording]]:
    """To learn from, and of people held out: every third of a data set, n_lives simulated, or one scripted fall."""
    if given.dataset:
        everything = list(open_dataset(given.dataset, given.data).iter_recordings())
        held_out = set(sorted({each.subject for each in everything})[::3])  # in many sets those who fall come first
        learned = [each for each in everything if each.subject not in held_out]
        return Recordings(learned), [each for each in everything if each.subject in held_out]
    lives = [SyntheticLife(f"w{k}", (7, k), duration_s=60 * given.minutes, n_falls=0) for k in range(N_LEARNED_FROM)]
    others = [SyntheticLife(f"h{k}", (9, k), duration_s=60 * given.minutes, n_falls=4) for k in range(n_lives)]
    shown = [each for life in others for each in life] or [Wearer("h0", 9).recording("fall", SCRIPT)]
    return Recordings([each for life in lives for each in life]), shown


def first_fall(held_out: Sequence[Recording]) -> Recording:
    """Of the people held out."""
    found = next((each for each in held_out if each.is_fall and len(each.block)), None)
    if found is None:
        raise SystemExit("The people held out, every third by name, must have a recording of a fall; they have none")
    return found


def save(figure: Figure, given: argparse.Namespace) -> None:
    """With what the picture is of written below it."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gallery"})  # words stay words
    source = f"{given.dataset}, people held out" if given.dataset else "simulated wearers: this says nothing of people"
    figure.supxlabel(source, fontsize=9, color="#555", x=0.99, ha="right")
    figure.savefig(given.out, format="svg", metadata={"Date": None, "Title": source})
    print(f"{given.out}: {source}")
