"""What a replay plays: chosen recordings of a data set, or synthetic lives, by device id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from simulators.synthetic import Wearer, draw_script
from stream_occ.datasets import Dataset
from stream_occ.errors import DataError, nearest
from stream_occ.samples import Recording

PERSON = "{person}"
SYNTHETIC_RATE_HZ = 50.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which recordings are wanted; None is all."""

    people: Collection[str] | None = None
    activities: Collection[str] | None = None
    falls: bool | None = None

    def accepts(self, recording: Recording) -> bool:
        """True for a recording that meets all three."""
        return (
            (self.people is None or recording.subject in self.people)
            and (self.activities is None or recording.activity in self.activities)
            and self.falls in (None, recording.is_fall)
        )


def recorded_streams(
    dataset: Dataset, device: str, choice: Choice, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, list[Recording]]:
    """Device id to the wanted recordings, in the data set's order; {person} in `device` makes one device a person.

    All are read before the first is played, so that reading never makes a message late. Raises DataError for none.
    """
    streams: dict[str, list[Recording]] = {}
    seen: set[str] = set()
    for recording in dataset.iter_recordings():
        seen.add(recording.activity)
        if on_progress is not None:
            on_progress(dataset.report.n_files_read + 1, dataset.n_files)
        if choice.accepts(recording):
            streams.setdefault(device.replace(PERSON, recording.subject), []).append(recording)
    if not streams:
        remedy = "Widen --people, --activities or --falls"
        for unknown in sorted(set(choice.activities or ()) - seen):
            remedy = nearest(unknown, sorted(seen), remedy)
        raise DataError(dataset.name, "hold recordings of the kind asked for", "none", remedy)
    return streams


class SyntheticLife:
    """Recordings of one synthetic wearer, made as they are played; each pass through them is the same life again."""

    def __init__(self, device_id: str, seed: tuple[int, ...], *, duration_s: float, n_falls: int) -> None:
        self.device_id = device_id
        self.seed = seed
        self._script = draw_script(np.random.default_rng(seed), duration_s, n_falls=n_falls)

    def __iter__(self) -> Iterator[Recording]:
        rng = np.random.default_rng((*self.seed, 1))
        return Wearer(self.device_id, rng, rate_hz=SYNTHETIC_RATE_HZ).iter_recordings(self._script)

    @property
    def duration_s(self) -> float:
        """What the script lasts, without the posture changes that are put in, s."""
        return sum(duration_s for _, duration_s in self._script)


def synthetic_streams(
    n_wearers: int, device: str, *, duration_s: float, n_falls: int, seed: int
) -> dict[str, SyntheticLife]:
    """Device id to the life of its wearer; the number takes the place of {person}, or is put behind the id."""
    pattern = device if PERSON in device or n_wearers == 1 else f"{device}-{PERSON}"
    names = [pattern.replace(PERSON, str(k)) for k in range(1, n_wearers + 1)]
    return {
        name: SyntheticLife(name, (seed, k), duration_s=duration_s, n_falls=n_falls) for k, name in enumerate(names)
    }
