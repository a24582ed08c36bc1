"""What a load refused, left out or found odd: counted per file and reason, and named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class LoadReport:
    """Counts of one pass over a data set; complete once `iter_recordings` is exhausted.

    `refused` holds the rows that were not used, by (file, reason); `notes` one sentence per thing that has no rows.
    """

    dataset: str = ""
    n_recordings: int = 0
    n_samples: int = 0
    n_files_read: int = 0
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def n_refused(self) -> int:
        """Rows not used, over all files and reasons."""
        return self.refused.total()

    def refuse(self, file: str, reason: str, n_rows: int = 1) -> None:
        """Counts rows that are not used."""
        if n_rows:
            self.refused[file, reason] += int(n_rows)

    def note(self, file: str, text: str) -> None:
        """Records what is odd about a file."""
        self.notes.append(f"{file}: {text}")

    def by_reason(self) -> dict[str, int]:
        """Rows not used, by reason."""
        totals: Counter[str] = Counter()
        for (_, reason), n_rows in self.refused.items():
            totals[reason] += n_rows
        return dict(totals)

    def clear(self) -> None:
        """Starts over, for another pass."""
        self.n_recordings = self.n_samples = self.n_files_read = 0
        self.refused.clear()
        self.notes.clear()

    def lines(self, max_files: int | None = 10) -> list[str]:
        """The report for people: totals, then per reason its worst `max_files` files (None for all), then notes."""
        lines = [
            f"{self.dataset}: {self.n_recordings} recordings, {self.n_samples} samples, {self.n_refused} rows not used"
        ]
        for reason, total in sorted(self.by_reason().items(), key=lambda item: (-item[1], item[0])):
            files = sorted(
                ((file, n_rows) for (file, why), n_rows in self.refused.items() if why == reason),
                key=lambda item: (-item[1], item[0]),
            )
            lines.append(f"{total} rows not used: {reason} (in {len(files)} files)")
            lines += [f"  {file}: {n_rows} rows, {reason}" for file, n_rows in files[:max_files]]
            if max_files is not None and len(files) > max_files:
                lines.append(f"  ... and {len(files) - max_files} more files")
        shown = self.notes[:max_files]
        lines += [f"note: {text}" for text in shown]
        if len(shown) < len(self.notes):
            lines.append(f"note: ... and {len(self.notes) - len(shown)} more")
        return lines
