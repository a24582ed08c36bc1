"""Draws docs/how-it-works-*.svg, a synthetic fall on its way to an alarm and what the ratio of neighbours measures, and
what the programs of docs/gallery.md draw.

    python scripts/make_pictures.py [FOLDER]    needs the extra train; the default folder is docs/

The fall goes through the trainer, the pipeline and the event engine as they are; the points through OCNN. These two are
plain SVG, written here: no plot library's version changes them.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import matplotlib as mpl
import numpy as np

from simulators.sources import SyntheticLife
from simulators.synthetic import Wearer
from stream_occ.datasets import LoadReport
from stream_occ.detectors import OCNN
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2, FloatArray, Recording, SampleBlock
from stream_occ.training import train

REPO = Path(__file__).resolve().parents[1]
RATE_HZ = 50.0
SCRIPT = [("walking", 20.0), ("fall_forward", 60.0)]
STEP_S = 0.25
BLUE, RED, GREY = "#0b6e99", "#b3261e", "#666"
STATE_COLOURS = {
    "normal": "#cfe8d5",
    "suspected": "#fff3c4",
    "checking": "#ffe08a",
    "pending": "#ffb870",
    "alarm": "#f28b82",
}
Points = Sequence[tuple[float, float]]


class Lives:
    """The normal lives of three synthetic wearers, as a data set."""

    name = "synthetic"
    n_files = 0

    def __init__(self) -> None:
        self.report = LoadReport("synthetic")

    def iter_recordings(self) -> Iterator[Recording]:
        """Each activity is a recording."""
        for k in range(3):
            yield from SyntheticLife(f"w{k}", (7, k), duration_s=600.0, n_falls=0)


def fall_told() -> tuple[FloatArray, FloatArray, Points, list[tuple[float, str]], float]:
    """Seconds and |a| in g; seconds and scores of windows; seconds and states; the threshold."""
    model = train([Lives()]).model
    pipeline = Pipeline(model)
    trace = Wearer("w9", np.random.default_rng(9), rate_hz=RATE_HZ).recording("fall", SCRIPT).block
    state, scores, states = pipeline.initial(), [], [(0.0, "normal")]
    n = round(STEP_S * RATE_HZ)
    for k in range(0, len(trace), n):
        part = SampleBlock("w9", trace.t_ns[k : k + n], trace.acc_ms2[k : k + n], trace.gyr_rads[k : k + n])
        state, decisions, alerts = pipeline.step(state, [part], int(part.t_ns[-1]))
        t0_ns = int(trace.t_ns[0])
        scores += [((each.t_end_ns - t0_ns) / NS_PER_S, each.score) for each in decisions]
        states += [((alert.t_ns - t0_ns) / NS_PER_S, alert.state) for alert in alerts]
    t_s = (trace.t_ns - trace.t_ns[0]) / NS_PER_S
    size_g = np.sqrt((trace.acc_ms2**2).sum(axis=1)) / STANDARD_GRAVITY_MS2
    return t_s, size_g, scores, states, model.threshold


class Picture:
    """An SVG of so many pixels, on white."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="sans-serif" font-size="13"><title>{escape(title)}</title>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def line(self, points: Points, colour: str = "black", width: float = 1.5, dash: str = "") -> None:
        """Through the points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled one."""
        self._lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 4) -> None:
        """A filled one."""
        self._lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def text(self, x: float, y: float, words: str, *, colour: str = "black", anchor: str = "start") -> None:
        """One line."""
        self._lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def save(self, path: Path) -> None:
        """Writes the file."""
        path.write_text("\n".join([*self._lines, "</svg>"]) + "\n", encoding="utf-8")


def draw_fall(path: Path) -> None:
    """Acceleration, score against threshold, and state of the alert, on one axis of time."""
    t_s, size_g, scores, states, threshold = fall_told()
    end_s, left, right = float(t_s[-1]), 60.0, 760.0

    def x(second: float) -> float:
        return left + (right - left) * second / end_s

    def panel(values: Points, top: float, bottom: float, low: float, high: float) -> Points:
        return [(x(s), bottom - (bottom - top) * (min(max(v, low), high) - low) / (high - low)) for s, v in values]

    picture = Picture(780, 430, "A synthetic fall: acceleration, score and state of the alert over time")
    high_g, low, high = (
        max(4.0, float(size_g.max())),
        min(v for _, v in scores),
        max(threshold, *(v for _, v in scores)),
    )
    picture.text(left, 20, "size of the acceleration, in g (a synthetic wearer walks, falls forwards and lies)")
    picture.line(panel(list(zip(t_s.tolist(), size_g.tolist(), strict=True)), 30, 140, 0, high_g), BLUE, 1)
    picture.text(left - 6, 34, f"{high_g:.0f}", anchor="end")
    picture.text(left - 6, 142, "0", anchor="end")
    picture.text(left, 175, "score of each window of 5 s, every 0.5 s: how unlike normal activity")
    picture.line(panel(scores, 185, 295, low, high), BLUE)
    limit = panel([(0, threshold), (end_s, threshold)], 185, 295, low, high)
    picture.line(limit, RED, 1.5, "6 4")
    picture.text(right, limit[1][1] - 5, "threshold", colour=RED, anchor="end")
    picture.text(left, 330, "state of the alert")
    for (start_s, name), (stop_s, _) in zip(states, [*states[1:], (end_s, "")], strict=True):
        picture.box(x(start_s), 340, x(stop_s) - x(start_s), 34, STATE_COLOURS.get(name, "#ddd"))
        if x(stop_s) - x(start_s) > 60:
            picture.text((x(start_s) + x(stop_s)) / 2, 362, name, anchor="middle")
    for second in range(0, int(end_s) + 1, 10):
        picture.line([(x(second), 374), (x(second), 380)], GREY, 1)
        picture.text(x(second), 396, f"{second} s", colour=GREY, anchor="middle")
    told = ", ".join(f"{name} at {second:.1f} s" for second, name in states[1:])
    picture.text(left, 420, told, colour=GREY)
    picture.save(path)


def draw_ratio(path: Path) -> None:
    """Two new points beside normal ones: distance to the nearest, and that one's own distance to its nearest."""
    rng = np.random.default_rng(3)
    normal = np.concatenate([rng.normal(0, 0.25, (45, 2)), rng.normal((3.2, 0.6), 0.7, (8, 2))])
    asked = {"A": (0.3, 0.5), "B": (3.3, -0.6)}
    detector = OCNN().fit(normal)
    picture = Picture(780, 400, "The ratio of nearest neighbours: two new points beside the normal ones")

    def place(point: Sequence[float]) -> tuple[float, float]:
        return 140 + 118 * float(point[0]), 230 - 118 * float(point[1])

    for row in normal:
        picture.dot(*place(row), GREY)
    for k, (name, point) in enumerate(asked.items()):
        nearest = int(np.argmin(np.linalg.norm(normal - point, axis=1)))
        others = np.linalg.norm(normal - normal[nearest], axis=1)
        others[nearest] = np.inf
        second = int(np.argmin(others))
        picture.line([place(point), place(normal[nearest])], RED, 2)
        picture.line([place(normal[nearest]), place(normal[second])], BLUE, 2)
        picture.dot(*place(point), RED, 6)
        picture.text(place(point)[0] + 10, place(point)[1] + 5, name)
        distance = float(np.linalg.norm(normal[nearest] - point))
        ratio = float(detector.nn_ratio([point])[0])
        words = f"{name}: {distance:.2f} to the nearest normal point, which has its own at {others[second]:.2f}"
        picture.text(20, 358 + 22 * k, f"{words}; ratio {ratio:.1f}: {'rejected' if ratio >= 1 else 'accepted'}")
    picture.text(20, 24, "grey: normal windows in two features; red: a new window and its distance to the nearest;")
    picture.text(20, 42, "blue: that neighbour's own distance to its nearest. The papers' rule accepts ratios below 1.")
    picture.save(path)


def run_gallery(folder: Path) -> None:
    """Runs each program of docs/gallery.md, which saves its picture into the working folder."""
    mpl.rcParams["svg.hashsalt"] = "gallery"  # the same program gives the same file
    text = (REPO / "docs" / "gallery.md").read_text(encoding="utf-8")
    with contextlib.chdir(folder):
        for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(compile(program, "docs/gallery.md", "exec"), {})


def main() -> None:
    """All pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "docs"
    draw_fall(folder / "how-it-works-fall.svg")
    draw_ratio(folder / "how-it-works-ratio.svg")
    run_gallery(folder.resolve())


if __name__ == "__main__":
    main()
