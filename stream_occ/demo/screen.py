"""What a demo shows: a live table where there is a terminal, plain lines where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from stream_occ.demo.ledger import Ledger, Line, Outcome
from stream_occ.demo.model import ProgressReport

BAR_WIDTH = 24
BAR_RANGE = 1.5  # margins from -1.5 to +1.5 fill the bar; the threshold is its middle
PLAIN_EVERY_S = 10.0

DISCLAIMER = (
    "Synthetic wearers: their movements come from a simulator, so these figures say how the pieces work together, "
    "and nothing of people."
)


class Screen:
    """Writes to one stream; `is_live` where that is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stdout, highlight=False)
        self._live: Live | None = None
        self._next_line_s = 0.0

    @property
    def is_live(self) -> bool:
        """True where a table is drawn over and over."""
        return self._console.is_terminal

    def say(self, text: str) -> None:
        """One line that stays."""
        self._console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def progress(self) -> Iterator[ProgressReport]:
        """A bar for each stage; without a terminal one line for each stage that is done."""
        if not self.is_live:
            yield lambda stage, done, total: self.say(f"  {stage}: done") if done == total else None
            return
        times = TimeElapsedColumn(), TimeRemainingColumn()
        columns = TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), *times
        with Progress(*columns, console=self._console) as bars:
            tasks: dict[str, object] = {}

            def report(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=total)
                bars.update(tasks[stage], completed=done)  # type: ignore[arg-type]

            yield report

    @contextmanager
    def live(self) -> Iterator[None]:
        """Between these two the table is on screen."""
        if not self.is_live:
            yield
            return
        with Live(console=self._console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def show(self, ledger: Ledger, elapsed_s: float, total_s: float) -> None:
        """The table anew, or a line where the last one is long enough ago."""
        if self._live is not None:
            self._live.update(_table(ledger, elapsed_s, total_s))
        elif not self.is_live and elapsed_s >= self._next_line_s:
            self._next_line_s = elapsed_s + PLAIN_EVERY_S
            self.say(f"  {elapsed_s:5.0f} of {total_s:.0f} s: {_counts(ledger)}")

    def alert(self, device_id: str, activity: str, is_falling: bool) -> None:
        """Without a terminal, each alert has its line."""
        if not self.is_live:
            self.say(f"  alert: {device_id} ({activity or 'unknown'}{', a simulated fall' if is_falling else ''})")


def _counts(ledger: Ledger) -> str:
    outcome = ledger.settle()
    return f"{outcome.n_windows} windows scored, {len(outcome.falls)} falls so far, {len(ledger.alerts)} alerts"


def _table(ledger: Ledger, elapsed_s: float, total_s: float) -> Table:
    table = Table(
        title=f"stream-occ demo, {elapsed_s:.0f} of {total_s:.0f} s",
        caption=f"{_counts(ledger)}\nbar: score of the last window, | is the threshold.",
        caption_justify="left",
    )
    for name in ("wearer", "really doing", "score", "state", "alerts"):
        table.add_column(name)
    for device_id, line in ledger.lines.items():
        doing = Text(line.activity.replace("_", " "), style="bold red" if line.is_falling else "")
        state = Text(line.state, style="bold white on red" if line.open_alert else "green")
        table.add_row(device_id, doing, bar(line), state, str(line.n_alerts))
    return table


def bar(line: Line) -> Text:
    """Score against threshold as a bar: full half way is a score at the threshold."""
    if line.score is None or line.threshold is None:
        return Text("waiting for a first window")
    margin = line.score - line.threshold
    middle = BAR_WIDTH // 2
    n_full = max(0, min(BAR_WIDTH, round((margin + BAR_RANGE) / (2 * BAR_RANGE) * BAR_WIDTH)))
    cells = "█" * n_full + "·" * (BAR_WIDTH - n_full)
    return Text(f"{cells[:middle]}|{cells[middle:]} {margin:+.2f}", style="red" if margin > 0 else "cyan")


def summary_lines(outcome: Outcome, data_hours: float, wall_s: float) -> list[str]:
    """What is printed at the end."""
    median_s = outcome.median_delay_s
    delay = "none" if median_s is None else f"{median_s:.1f} s from the end of the impact"
    missed = [f"{fall.device_id} {fall.kind}" for fall in outcome.falls if fall.delay_s is None]
    false = [f"{device_id} while {activity.replace('_', ' ')}" for device_id, _, activity in outcome.false_alarms]
    return [
        f"{data_hours:.1f} hours of wear in {wall_s:.0f} s, {outcome.n_windows} windows scored",
        f"  falls simulated  {len(outcome.falls)}",
        f"  falls flagged    {outcome.n_flagged}",
        f"  falls missed     {len(missed)}" + (f"   ({'; '.join(missed)})" if missed else ""),
        f"  false alarms     {len(false)}" + (f"   ({'; '.join(false)})" if false else ""),
        *(
            [f"  further alerts   {outcome.n_further}   (within a minute after a flagged fall)"]
            if outcome.n_further
            else []
        ),
        f"  median delay     {delay}",
        DISCLAIMER,
    ]
