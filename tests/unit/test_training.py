"""The trainer on small in-memory data sets: what is used, what is left out, what is refused, what threshold results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stream_occ.errors import ConfigError, DataError, UsageError
from stream_occ.samples import Recording
from stream_occ.training import fitting, holding_out, train
from stream_occ.training.checks import measured_rate_hz
from tests.unit.training_recordings import GRAVITY, Source, config, people, recording, refusal


def test_model_is_made_of_all_normal_windows() -> None:
    """8 recordings of 20 s, 50 Hz: 1000 samples, windows of 250 every 25: 31 each, 248 in all."""
    result = train([Source(people())], config())
    summary = result.summary
    assert (summary["n_people"], summary["n_recordings"], summary["n_windows"]) == (4, 8, 8 * 31)
    assert summary["hours"] == pytest.approx(8 * 19.98 / 3600, abs=1e-4)
    assert summary["activities"]["walk"]["n_windows"] == 4 * 31
    assert result.model.score_features(result.self_test_X).shape == (32,)


def test_falls_are_never_used_and_counted() -> None:
    """A fall recording changes nothing but its count: not even one that could not be trained on."""
    fall = recording("9", "fall", acc=lambda a: a * np.nan, is_fall=True)
    without = train([Source(people())], config())
    with_falls = train([Source([fall, *people(), fall])], config())
    assert with_falls.summary["n_falls_left_out"] == 2
    assert without.summary["n_falls_left_out"] == 0
    assert with_falls.summary["data_sha256"] == without.summary["data_sha256"]
    assert with_falls.model.threshold == without.model.threshold
    np.testing.assert_array_equal(with_falls.self_test_X, without.self_test_X)


def test_same_data_and_seed_give_the_same_model_id() -> None:
    """The file is a function of data, configuration and versions."""
    assert train([Source(people())], config()).model.model_id == train([Source(people())], config()).model.model_id


def test_one_changed_sample_changes_the_data_hash() -> None:
    """The hash is over the samples used."""
    changed = people()
    changed[3].block.gyr_rads[17, 2] += 1e-12
    first, second = train([Source(people())], config()), train([Source(changed)], config())
    assert first.summary["data_sha256"] != second.summary["data_sha256"]


def test_filters_keep_and_leave_out_people_and_activities() -> None:
    """Both directions for both; what they leave out is counted."""
    for changes, n_used in (
        ({"people": ("0", "2")}, 4),
        ({"exclude_people": ("0",)}, 6),
        ({"activities": ("walk",)}, 4),
        ({"exclude_activities": ("walk",), "exclude_people": ("1",)}, 3),
    ):
        limits = {"min_windows": 50}
        summary = train([Source(people())], config(**changes, limits=limits)).summary
        assert (summary["n_recordings"], summary["n_filtered_out"]) == (n_used, 8 - n_used)


def test_unknown_name_in_a_filter_is_refused() -> None:
    """A misspelt person would otherwise be trained on, or missed, in silence."""
    assert "people: must be in the data; got '7'. It holds normal recordings of 0, 1, 2, 3" in refusal(
        people(), exclude_people=("7",)
    )
    assert "activities: must be in the data; got 'run'" in refusal(people(), activities=("walk", "run"))


def test_too_little_data_is_refused_with_what_was_left_out() -> None:
    """Windows, recordings, people: each has its least number."""
    fall = recording("9", "fall", is_fall=True)
    assert (
        "hold normal activity: at least 100 windows; got 31 (left out: 1 fall recordings, 0 by filters, 1 too short)"
        in refusal([recording(), fall, recording("2", duration_s=3.0)])
    )
    assert "at least 9 recordings; got 8" in refusal(people(), limits={"min_recordings": 9})
    assert "at least 5 people; got 4" in refusal(people(), limits={"min_people": 5})
    assert "must hold normal activity: at least 1 person; got 0" in refusal([fall])


def test_person_without_whom_nothing_is_left_to_learn_from_is_told() -> None:
    """Held out, the one with all windows but one leaves nothing that a scaler or a detector can be fitted on."""
    line = refusal([recording("0"), recording("1", duration_s=5.2)], limits={"min_windows": 20})
    assert line.startswith("training data: must suit detector ")


def test_too_little_data_names_the_rows_that_were_refused() -> None:
    """Decimal commas or NaN throughout leave no row: the remedy then is another one than to record more."""
    source = Source([])
    source.report.refuse("walk.csv", "wrong number of fields", 3000)
    with pytest.raises(DataError, match=r"rows refused: 3000 wrong number of fields\)\. Correct the rows"):
        train([source], config())
    source.report.note("walk.csv", "passed over")
    with pytest.raises(DataError, match=r"wrong number of fields; walk\.csv: passed over\)"):
        train([source], config())


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ({"acc": lambda a: a / GRAVITY}, "got 1.01, which points to acc_unit_g_as_ms2"),
        ({"acc": lambda a: a * GRAVITY}, "must have a mean |a| within a factor of 3"),
        ({"acc": lambda a: np.full_like(a, 0.577)}, "got 0.999, which points to acc_unit_g_as_ms2"),
        ({"acc": lambda a: np.zeros_like(a)}, "points to gravity_missing"),
        ({"gyr": lambda w: w * 180 / np.pi}, "must have a 99 % quantile of |w| of at most 61 rad/s"),
        ({"gyr": lambda w: w * np.nan}, "must hold finite samples; got NaN or infinity alone"),
        ({"rate_hz": 20.0}, "must be sampled at 22.5 Hz or faster for a model of 50 Hz with fake3; got 20 Hz"),
    ],
)
def test_recording_in_other_units_or_rates_is_named(spoil: dict[str, Callable[..., Any]], text: str) -> None:
    """One bad recording among good ones would teach the model that nonsense is normal."""
    line = refusal([*people(), recording("8", "odd", **spoil)])
    assert line.startswith("fake/8/odd/1: ")
    assert text in line


def test_some_nan_samples_are_refused_by_number() -> None:
    """Loaders refuse such rows; whatever comes here with them was not read by one."""
    bad = recording("8", "odd")
    bad.block.acc_ms2[10:13, 1] = np.inf
    assert "must hold finite samples; got 3 of 1000 with NaN or infinity" in refusal([*people(), bad])


def test_mixed_rates_are_refused_beyond_a_factor_of_two() -> None:
    """50 and 90 Hz may be one phone; 50 and 150 Hz are two kinds of sensor."""
    train([Source([*people(), recording("8", "odd", rate_hz=90.0)])], config())
    line = refusal([*people(), recording("8", "odd", rate_hz=150.0)])
    assert "must have sampling rates within a factor of 2; got 50 Hz (fake/0/sit/1) and 150 Hz (fake/8/odd/1)" in line


def test_slightly_slow_recordings_pass() -> None:
    """WEDA-FALL's 39.8 Hz is half a percent below khan31r's limit; 35 Hz is more than a tenth."""
    slow = people(rate_hz=39.8)
    assert train([Source(slow)], config(feature_set="khan31r")).summary["rate_hz_measured"]["max"] < 40
    assert "be sampled at 36 Hz or faster" in refusal(people(rate_hz=35.0), feature_set="khan31r")


def test_measured_rate_leaves_holes_and_doubles_out() -> None:
    """Two stretches of 10 Hz with a minute between, one stamp twice: still 10 Hz."""
    t_ns = np.array([0, 100, 100, 200, 60_200, 60_300]) * 1_000_000
    assert measured_rate_hz(t_ns) == pytest.approx(10.0)
    assert measured_rate_hz(t_ns[:1]) == 0.0


def test_mixed_placement_is_refused_unless_allowed() -> None:
    """A wrist among waists; `unknown` goes with any."""
    mixed = [*people(), recording("8", "odd", placement="wrist")]
    assert "come from one place on the body; got waist (fake/0/sit/1) and wrist (fake/8/odd/1)" in refusal(mixed)
    assert train([Source(mixed)], config(allow_mixed_placement=True)).summary["placements"] == ["waist", "wrist"]
    train([Source([*people(), recording("8", "odd", placement="unknown")])], config())


def test_constant_data_are_refused() -> None:
    """A stuck sensor teaches nothing."""
    stuck = people(acc=lambda a: np.full_like(a, GRAVITY / 3**0.5), gyr=lambda w: np.ones_like(w))
    assert "training data: must vary; got 248 windows that are all the same" in refusal(stuck)


def test_rate_at_or_below_the_feature_sets_is_refused() -> None:
    """The limit is exclusive."""
    line = refusal(people(), ConfigError, feature_set="khan31r", rate_hz=40.0)
    assert line.startswith("rate_hz: must be above 40 for feature set khan31r; got 40")


def test_unknown_detector_and_parameter_are_told_before_data_are_read() -> None:
    """A mistake of a second is not told after minutes of reading."""

    class Unread(Source):
        def iter_recordings(self) -> Iterator[Recording]:
            raise AssertionError("data were read")

    with pytest.raises(UsageError, match="detector: must be the name of a preset"):
        train([Unread([])], config(detector={"name": "11NNN"}))
    with pytest.raises(ConfigError, match=r"detector\.params: must be parameters of 11NN; got 'nope'. It has drop"):
        train([Unread([])], config(detector={"name": "11NN", "params": {"nope": 1}}))
    with pytest.raises(ConfigError, match=r"detector\.params: must leave names to feature_set; got feature_names"):
        train(
            [Unread([])], config(feature_set="fall31", detector={"name": "fused", "params": {"feature_names": ["a"]}})
        )


def test_threshold_rejects_the_share_of_held_out_people() -> None:
    """At most floor(share n) held-out windows lie above, and with distinct scores exactly that many."""
    result = train([Source(people())], config(threshold={"rule": "quantile", "reject_share": 0.1}))
    evidence = result.evidence
    assert (evidence.unit, evidence.n_folds) == ("people", 3)
    assert int((evidence.scores > result.model.threshold).sum()) == 24  # floor(.1 * 248)
    assert result.summary["threshold"]["n_rejected"] == 24


def test_held_out_person_is_not_in_the_fit_that_scores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fold's fit sees none of the rows that it scores."""
    seen: list[np.ndarray] = []
    real = fitting.fit

    def spy(X: np.ndarray, *args: Any) -> Any:
        seen.append(X)
        return real(X, *args)

    monkeypatch.setattr(fitting, "fit", spy)
    result = train([Source(people(2))], config(limits={"min_windows": 10}))
    assert [len(X) for X in seen] == [62, 62, 124]
    assert not {row.tobytes() for row in seen[0]} & {row.tobytes() for row in seen[1]}
    assert result.evidence.n_folds == 2


def test_same_subject_of_two_sets_is_two_people() -> None:
    """Every set numbers its people from 1."""
    other = [dataclasses.replace(one, dataset="other") for one in people(1)]
    result = train([Source(people(1)), Source(other)], config())
    assert result.summary["n_people"] == 2
    assert result.summary["datasets"] == ["fake", "other"]
    assert result.evidence.unit == "people"


def test_what_the_loader_refused_and_noted_is_said() -> None:
    """Nothing is lost in silence: rows by reason, and the first notes."""
    source = Source(people())
    source.report.refuse("walk.csv", "not a number", 3)
    for i in range(7):
        source.report.note(f"{i}.csv", "odd")
    summary = train([source], config()).summary
    assert summary["refused_rows"] == {"not a number": 3}
    assert summary["notes"][-6:] == [*(f"loader: {i}.csv: odd" for i in range(5)), "loader: and 2 more notes"]


def test_one_person_is_held_out_by_minutes_and_warned_of() -> None:
    """The path of a user who recorded herself: five minutes of one thing are in every fold; a note says the limits."""
    walk, sit = recording("me", "walk", duration_s=300.0), recording("me", "sit", duration_s=300.0)
    result = train([Source([walk, sit])], config())
    assert result.summary["threshold"]["held_out"] == "minutes of the same person"
    data = SimpleNamespace(
        X=np.zeros((1200, 1)), recording=np.repeat([0, 1], 600), recordings=[SimpleNamespace(person="me")] * 2
    )
    unit, fold, guard = holding_out._folds(cast(Any, data), config())
    assert (unit, guard) == ("minutes of the same person", 10)
    assert fold.tolist() == [minute % 3 for minute in range(10) for _ in range(120)]
    assert any(
        note.startswith("one person: the threshold comes from other minutes") for note in result.summary["notes"]
    )


def test_one_recording_is_held_out_in_parts_without_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 5 s every 0.5 s: 9 on each side of a part overlap it, and are trained on with neither."""
    sizes: list[int] = []
    real = fitting.fit

    def spy(X: np.ndarray, *args: Any) -> Any:
        sizes.append(len(X))
        return real(X, *args)

    monkeypatch.setattr(fitting, "fit", spy)
    summary = train([Source([recording(duration_s=64.5)])], config()).summary
    assert summary["n_windows"] == 120
    assert summary["threshold"]["held_out"] == "minutes of the same person"
    assert sizes == [120 - 40 - 27, 120 - 40 - 36, 120 - 40 - 27, 120]  # six parts of 20, two a fold


@pytest.mark.parametrize(
    ("name", "params", "rule"),
    [
        ("11NN", {}, "detector"),
        ("11NN", {"floor": 4.0}, "budget"),
        ("11NN-RP", {"n_estimators": 3}, "detector"),
        ("working", {"n_estimators": 3}, "budget"),
    ],
)
def test_auto_rule_is_the_one_that_suits_the_detector(name: str, params: dict[str, Any], rule: str) -> None:
    """A ratio or vote of the papers decides by itself; other scores take their threshold from held-out people."""
    chosen = config(detector={"name": name, "params": params}, threshold={"rule": "auto"})
    assert train([Source(people())], chosen).summary["threshold"]["rule"] == rule


def test_detector_rule_takes_the_detectors_own_threshold() -> None:
    """11NN rejects where the ratio is 1 or more: its threshold is the number just below 1."""
    result = train([Source(people())], config(threshold={"rule": "detector"}))
    assert result.model.threshold == np.nextafter(1.0, -np.inf)
    assert result.summary["threshold"]["rule"] == "detector"


def test_windows_are_thinned_to_the_limit_by_the_seed() -> None:
    """Long data do not grow the model without bound; how many were left out is said."""
    summary = train([Source(people())], config(limits={"max_windows": 100})).summary
    assert (summary["n_windows"], summary["n_windows_thinned"]) == (100, 148)


def test_progress_is_told_by_stage() -> None:
    """Reading by recording, then each fit; done never passes the total."""
    told: list[tuple[str, int, int]] = []
    train([Source(people())], config(), lambda *step: told.append(step))
    assert told[:2] == [("Reading fake", 1, 8), ("Reading fake", 2, 8)]
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == [
        "Reading fake",
        *(f"Holding out people, {i} of 3" for i in (1, 2, 3)),
        "Fitting the model",
    ]
    assert all(done <= total for _, done, total in told)


def test_a_threshold_that_one_persons_moment_decides_says_so() -> None:
    """A knock in one person's recordings lifts it; who has none is not named."""

    def knock(acc: np.ndarray) -> np.ndarray:
        acc[500:510] *= 8.0
        return acc

    budget = {"rule": "budget"}
    calm = train([Source(people(4))], config(detector={"name": "working"}, threshold=budget))
    odd = [*people(4), recording("9", "walk", acc=knock)]
    knocked = train([Source(odd)], config(detector={"name": "working"}, threshold=budget))
    [note] = [note for note in knocked.summary["notes"] if note.startswith("one moment of")]
    assert note.startswith(f"one moment of fake/9/walk/1 decides the threshold of {knocked.model.threshold:.4g}; ")
    assert knocked.model.threshold > calm.model.threshold
    assert not any("fake/9" in note for note in calm.summary["notes"])


@pytest.mark.parametrize(
    ("people", "is_item", "fold", "expected"),
    [
        ("aaabbb", [1, 1, 0, 0, 1, 1], [3, 3, 7, 7], [3, 3, 3, 7, 7, 7]),  # b's short piece comes before her windows
        ("aabcb", [1, 1, 0, 0, 1], [3, 3, 7], [3, 3, 7, 0, 7]),  # c has none: no detector knows her
        ("aaaaa", [0, 1, 0, 1, 0], [1, 2], [1, 1, 1, 2, 2]),  # minutes of one person
    ],
)
def test_window_off_the_hop_is_held_out_with_its_person(
    people: str, is_item: list[int], fold: list[int], expected: list[int]
) -> None:
    """Never scored by a detector that had another window of the same person."""
    recordings = [SimpleNamespace(person=person) for person in people]
    data = cast(Any, SimpleNamespace(recordings=recordings, recording=np.arange(len(people))))
    found = holding_out._of_all(np.array(fold), data, np.array(is_item, dtype=bool))
    assert found.tolist() == expected
