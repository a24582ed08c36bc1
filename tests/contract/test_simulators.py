"""What every synthetic activity and fall keeps to, picked up from the tables: nothing here names one."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from simulators.activities import ACTIVITIES
from simulators.evidence import COMPARISONS, WITHOUT_EVIDENCE
from simulators.falls import FALLS
from simulators.people import Sensor
from simulators.synthetic import Wearer, activity_names
from stream_occ.samples import NS_PER_S

G = 9.80665


@pytest.mark.parametrize("activity", activity_names())
@pytest.mark.parametrize("rate_hz", [50.0, 100.0])
def test_samples_are_finite_and_within_what_a_body_does(activity: str, rate_hz: float) -> None:
    """Below 30 g and 40 rad/s, the most that recorded falls show; in the right number."""
    for seed in range(3):
        sensor = Sensor(rate_hz=rate_hz, acc_range_ms2=1e4, gyr_range_rads=1e4)
        piece = list(Wearer("w", seed, sensor=sensor).iter_pieces([(activity, 8.0)]))[-1]
        assert piece.span.activity == activity
        assert len(piece.block) == 8 * rate_hz
        assert np.isfinite(piece.block.acc_ms2).all()
        assert np.abs(piece.block.acc_ms2).max() < 30 * G
        assert np.abs(piece.block.gyr_rads).max() < 40


@pytest.mark.parametrize("activity", activity_names())
def test_activities_join_without_a_jolt(activity: str) -> None:
    """At both ends the body is about at rest: |a| is near g and the rotation slow, so no seam looks like an event."""
    for seed in range(5):
        wearer = Wearer("w", seed, sensor=Sensor(rate_hz=100.0).ideal())
        pieces = list(wearer.iter_pieces([(activity, 10.0), (activity, 10.0)]))
        block = pieces[-1].block
        n = 4
        for edge in (slice(0, n), slice(-n, None)):
            assert np.abs(np.linalg.norm(block.acc_ms2[edge], axis=1) - G).max() < 2.5, (activity, seed)
            assert np.linalg.norm(block.gyr_rads[edge], axis=1).max() < 1.5, (activity, seed)


@pytest.mark.parametrize("activity", activity_names())
def test_orientation_goes_on_where_it_stopped(activity: str) -> None:
    """Gravity points the same way (within 15 degrees) before and after each seam of a life."""
    wearer = Wearer("w", 2, sensor=Sensor(rate_hz=100.0).ideal())
    pieces = list(wearer.iter_pieces([(activity, 9.0), ("standing", 3.0), (activity, 9.0)]))
    for one, other in itertools.pairwise(pieces):
        a, b = one.block.acc_ms2[-5:].mean(axis=0), other.block.acc_ms2[:5].mean(axis=0)
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert np.degrees(np.arccos(np.clip(cosine, -1, 1))) < 15, (one.span.activity, other.span.activity)
        assert other.block.t_ns[0] - one.block.t_ns[-1] == NS_PER_S // 100


@pytest.mark.parametrize("kind", sorted(FALLS))
def test_after_a_fall_the_person_lies_still_in_another_posture(kind: str) -> None:
    """The last second of ten: |a| is g within a tenth of g for most, and the thigh is level."""
    still = 0
    for seed in range(10):
        wearer = Wearer("w", seed, sensor=Sensor().ideal())
        block = list(wearer.iter_pieces([(kind, 10.0)]))[-1].block
        still += bool(np.abs(np.linalg.norm(block.acc_ms2[-50:], axis=1) - G).max() < 0.1 * G)
        along_bone = (wearer.pocket.mounting @ block.acc_ms2[-50:].mean(axis=0))[2]
        assert abs(along_bone) < 0.75 * G, seed
    assert still >= 8


def test_every_activity_has_evidence_or_is_said_to_have_none() -> None:
    """No activity slips in unmeasured."""
    assert set(COMPARISONS) | set(WITHOUT_EVIDENCE) == set(ACTIVITIES) | set(FALLS)
    assert not set(COMPARISONS) & set(WITHOUT_EVIDENCE)


def test_simulators_load_no_detector() -> None:
    """What makes the data never sees what judges it."""
    code = (
        "import sys, simulators.synthetic, simulators.replay, simulators.sources, simulators.publisher\n"
        "print([name for name in sys.modules if name.startswith(('stream_occ.detectors', 'stream_occ.scoring'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
