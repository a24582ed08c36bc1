"""Each fault that a simulator can put into a MobiFall replay gets its own name in the state, and no other.

The recordings go through the whole service, message by message, and every state message is read; what the same replay
shows undisturbed is what else may be there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from simulators.faults import FAMILY, fault_names, load_fault
from simulators.replay import replay, schedule
from simulators.synthetic import Wearer
from stream_occ import features
from stream_occ.cli import run
from stream_occ.codecs import load_codec
from stream_occ.datasets import open_dataset
from stream_occ.errors import UsageError
from stream_occ.plugins import load_plugin
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

LENGTH_S = 40.0  # of a recording, but for those with their length behind the name
DOC = Path(__file__).resolve().parents[2] / "docs" / "quality.md"
CUTS: dict[str, dict[str, Any]] = {  # windows without a filter, and as the default model has them
    "plain": {"window_s": 3.0, "sos": None},
    "default": {"window_s": 5.0, "sos": features.design_lowpass(features.load("fall31"), 50.0)},
}
CODEC = load_codec("msgpack")  # JSON cannot say NaN
ACTIVITIES = ("STD", "WAL", "FOL")
CHAIRS = ("CSI", "CSO", "SCH", "STU")  # of each all trials, one after another: the device turns as the wearer sits down
COSTS_VERDICTS = {"unscorable", "not_scored", "no_data"}
Cost = Literal["nothing", "its windows", "some windows", "windows", "all messages"]
# A fault of the simulator, the activity in which it shows, its name in the state, and what it costs.
EXPECTED: tuple[tuple[str, str, str, Cost], ...] = (
    ("stuck:0", "WAL", "acc_stuck", "its windows"),
    ("stuck:1", "FOL", "acc_stuck", "its windows"),
    ("stuck:4", "WAL", "gyr_stuck", "its windows"),
    ("stuck:6", "WAL", "stuck", "its windows"),
    ("axes", "STD", "axis_change", "its windows"),
    ("sign", "STD", "axis_change", "its windows"),
    ("mirror", "chairs", "axis_change", "windows"),
    ("saturation", "WAL", "saturated", "some windows"),
    ("epoch-unit", "WAL", "epoch_unit", "all messages"),
    ("epoch-unit:1000000", "WAL", "epoch_unit", "all messages"),
    ("epoch-unit:1000000000", "WAL", "epoch_unit", "all messages"),
    ("noise", "STD 300", "noisy", "windows"),
    ("clock-reset", "WAL", "clock_reset", "nothing"),
    ("clock-lost:0", "WAL", "stamp_out_of_range", "all messages"),
    ("rate", "WAL", "rate_mismatch", "nothing"),
    ("rate:0.6", "WAL", "rate_mismatch", "nothing"),
    ("gap", "WAL", "gap", "nothing"),
    ("lost", "WAL", "missing", "windows"),
    ("backlog", "WAL", "late_data", "nothing"),
    ("order", "WAL", "late", "windows"),
    ("duplicate", "WAL", "doubled", "nothing"),
    ("unit", "STD", "acc_unit_g_as_ms2", "windows"),
    ("unit:9.80665", "STD", "acc_unit_ms2_as_g", "windows"),
    ("unit:101.97", "STD", "acc_unit_mg_as_ms2", "windows"),
    ("unit:0.6", "STD", "acc_scale", "windows"),
    ("gravity", "STD", "gravity_missing", "windows"),
    ("gyr-unit", "WAL", "gyr_scale", "windows"),
    ("nan", "WAL", "not_finite", "windows"),
    ("skew", "WAL 300", "clock_skew", "nothing"),
    ("skew:-60", "WAL 300", "clock_skew", "nothing"),
    ("drift", "WAL 300", "clock_drift", "nothing"),
    ("drift:-5000", "WAL 300", "clock_drift", "nothing"),
    ("drift:20000", "WAL 300", "clock_drift", "some windows"),
    ("not-worn", "WAL 300", "not_worn", "windows"),
)
# Played for longer, in messages of a second: what is true besides, as docs/quality.md says.
BESIDES: dict[str, set[str]] = {
    "backlog": {"clock_skew"},
    "lost": {"gap"},
    "nan": {"gap"},
    "clock-lost": set(),
    "clock-reset": set(),
    "rate": set(),
    "rate:0.6": set(),
}


@pytest.fixture(scope="module")
def recordings(shared_data: Path) -> dict[str, Recording]:
    """One trial of a person by activity, at most LENGTH_S of it, and 300 s."""
    found: dict[str, Recording] = {}
    seated: list[Recording] = []
    with open_dataset("mobifall", shared_data / "mobifall.zip", variant=None) as source:
        for one in source.iter_recordings():
            if one.subject == "2" and one.activity in CHAIRS:
                seated.append(one)
            if one.subject != "2" or one.activity not in ACTIVITIES or one.activity in found:
                continue
            for name, length_s in ((one.activity, LENGTH_S), (f"{one.activity} 300", 300.0)):
                block = one.block
                kept = block.t_ns < block.t_ns[0] + round(length_s * NS_PER_S)
                found[name] = Recording(
                    *(getattr(one, field) for field in ("dataset", "subject", "activity", "trial", "is_fall")),
                    None,
                    one.placement,
                    SampleBlock("w1", block.t_ns[kept], block.acc_ms2[kept], block.gyr_rads[kept]),
                )
    found["chairs"] = replace(seated[0], block=in_a_row([one.block for one in seated]))
    return found


def in_a_row(blocks: Sequence[SampleBlock]) -> SampleBlock:
    """Recordings one after another, two seconds apart, as if there had been one."""
    stamps = [blocks[0].t_ns]
    for block in blocks[1:]:
        stamps.append(block.t_ns - block.t_ns[0] + stamps[-1][-1] + 2 * NS_PER_S)
    arrays = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("acc_ms2", "gyr_rads"))
    return SampleBlock("w1", np.concatenate(stamps), *arrays)


def played(
    recording: Recording,
    fault: str | None,
    *,
    cut: str = "plain",
    threshold: float = 1e6,
    profile: dict[str, float] | None = None,
    batch_s: float | None = None,
) -> Bench:
    """The service once the recording has been replayed to it, each message when it is due."""
    span_s = (int(recording.block.t_ns[-1]) - int(recording.block.t_ns[0])) / NS_PER_S
    entry: dict[str, Any] = {"pattern": "wearables/{device}/imu", "codec": "msgpack"}
    entry["profile"] = {"nominal_rate_hz": len(recording.block) / span_s, **(profile or {})}
    events = {"k": 1, "n": 1, "not_worn_s": 60.0}
    bench = Bench(toy_model(threshold=threshold, hop_s=0.5, **CUTS[cut]), inputs=[entry], events=events)
    disturb = None if fault is None else load_fault(fault)()
    for due in schedule({"w1": [recording]}, start_ns=T0_NS, batch_s=batch_s or (0.25 if span_s < 60 else 1.0)):
        block = due.block if disturb is None else disturb(due.block)
        bench.now_s = due.due_s
        if len(block):
            assert bench.deliver("wearables/w1/imu", CODEC.encode(block))
        bench.run()
    return bench


def named(bench: Bench) -> set[str]:
    """All faults that any state message has named."""
    return {name for state in bench.link.of("stream_occ/w1/state") for name in state["faults"]}


@pytest.fixture(scope="module")
def undisturbed(recordings: dict[str, Recording]) -> Callable[[str, str], set[str]]:
    """What a recording's replay names by itself."""
    return cache(lambda activity, cut: named(played(recordings[activity], None, cut=cut)))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("fault", "activity", "name", "cost"), EXPECTED)
def test_fault_gets_its_name_and_no_other(
    recordings: dict[str, Recording],
    undisturbed: Callable[[str, str], set[str]],
    fault: str,
    activity: str,
    name: str,
    cost: str,
    cut: str,
) -> None:
    """Beyond what the undisturbed replay shows; what costs verdicts leaves no window of its own that is normal."""
    before, bench = undisturbed(activity, cut), played(recordings[activity], fault, cut=cut)
    # Chairs are many recordings, and a third of those start so slowly that their first window is full of holes.
    assert not (before - ({"unscorable"} if activity == "chairs" else set())) & {"unscorable", "not_scored", name}
    assert named(bench) - before - COSTS_VERDICTS == {name}
    counters = bench.state()["counters"]
    assert counters[name] > 0
    if cost == "windows":
        assert counters["unscorable"] > counters["windows"] / 2
    elif cost == "some windows":
        assert 0 < counters["unscorable"] < counters["windows"]
    elif cost == "its windows":  # and those in which it shows and is not named yet
        assert counters["unscorable"] >= counters[name]
    else:
        assert "unscorable" not in counters
    assert ("windows" in counters) == (cost != "all messages")


@pytest.mark.parametrize("fault", BESIDES)
def test_fault_that_lasts_gets_no_other_name_but_what_is_true(
    recordings: dict[str, Recording], undisturbed: Callable[[str, str], set[str]], fault: str
) -> None:
    """Five minutes, in which a clock would be told to be off or to run away."""
    name = next(name for each, _, name, _ in EXPECTED if each.partition(":")[0] == fault.partition(":")[0])
    told = named(played(recordings["WAL 300"], fault, cut="default"))
    assert told - undisturbed("WAL 300", "default") - COSTS_VERDICTS == {name} | BESIDES[fault]


@pytest.mark.slow
@pytest.mark.parametrize("batch_s", [0.25, 0.5])
@pytest.mark.parametrize(
    ("fault", "name"), [(f, name) for f, a, name, _ in EXPECTED if a.startswith("WAL") and "epoch" not in f]
)
def test_fault_that_lasts_gets_no_other_name_in_shorter_messages(
    recordings: dict[str, Recording], fault: str, name: str, batch_s: float
) -> None:
    """As above, five minutes of each fault that shows in a walk."""
    before, told = (named(played(recordings["WAL 300"], f, cut="default", batch_s=batch_s)) for f in (None, fault))
    assert {name} <= told - before - COSTS_VERDICTS <= {name} | BESIDES.get(fault, set())


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("activity", ["car_ride", "housework"])
def test_motion_without_gravity_is_not_taken_for_motion_in_g(activity: str, cut: str) -> None:
    """What is left of a synthetic wearer's ride or housework is about 1 m/s2 in the mean, as gravity in g would be."""
    recording = Wearer("w1", 3).recording(activity, [(activity, 120.0)])
    assert named(played(recording, None, cut=cut)) == set()
    assert named(played(recording, "gravity", cut=cut)) - COSTS_VERDICTS == {"gravity_missing"}


def test_backlog_that_comes_faster_than_life_is_no_clock_that_is_off(recordings: dict[str, Recording]) -> None:
    """Two hours old, in messages of three seconds, one a second."""
    recording = recordings["WAL 300"]
    late_ns, bench = 7200 * NS_PER_S, Bench(toy_model(threshold=1e6, hop_s=0.5, **CUTS["default"]))
    for i, due in enumerate(schedule({"w1": [recording]}, start_ns=T0_NS - late_ns, batch_s=3.0)):
        bench.now_s = float(i)
        bench.deliver("wearables/w1/imu", JSON.encode(due.block))
        bench.run()
    assert named(bench) - COSTS_VERDICTS == {"late_data"}


def test_state_is_not_normal_while_all_is_refused(recordings: dict[str, Recording]) -> None:
    """From a second after the last message that was taken; of the same recording, with a clock that is lost at 20 s."""
    bench = Bench(toy_model(threshold=1e6, window_s=3.0, hop_s=0.5))
    disturb = load_fault("clock-lost:20")()
    told: dict[float, str] = {}
    for due in schedule({"w1": [recordings["WAL"]]}, start_ns=T0_NS):
        bench.now_s = due.due_s
        assert bench.deliver("wearables/w1/imu", JSON.encode(disturb(due.block)))
        bench.run()
        told[due.due_s] = bench.state()["state"]
    assert {state for due_s, state in told.items() if 5 < due_s < 20} == {"normal"}
    assert {state for due_s, state in told.items() if due_s > 21.5} == {"waiting"}


@pytest.mark.parametrize(
    ("fault", "activity"), [(f, a) for f, a, _, cost in EXPECTED if "windows" in cost and a != "WAL 300"]
)
def test_broken_sensor_is_no_reason_to_look_away(recordings: dict[str, Recording], fault: str, activity: str) -> None:
    """Where every window is above the threshold, each is flagged all the same, and no state is normal."""
    bench = played(recordings[activity], fault, threshold=-1.0)
    assert "unscorable" not in bench.state()["counters"]
    states = [state["state"] for state in bench.link.of("stream_occ/w1/state")]
    assert states[-1] in ("checking", "pending", "alarm")
    assert "normal" not in states


@pytest.mark.parametrize(("fault", "is_full"), [(None, False), ("saturation:20", True)])
def test_declared_full_scale_is_enough_to_be_at_it(
    recordings: dict[str, Recording], fault: str | None, is_full: bool
) -> None:
    """One sample at 20 m/s2 where the profile says so, and no window with it is normal; the recorded phone ends at
    19.54 m/s2."""
    recording = recordings["WAL"]
    strong = replace(recording, block=replace(recording.block, acc_ms2=1.2 * recording.block.acc_ms2))
    bench = played(strong if is_full else recording, fault, profile={"acc_range_ms2": 20.0})
    assert ("saturated" in named(bench)) == ("unscorable" in named(bench)) == is_full
    bench.run(60.0)  # until the counters are told again
    expected = int((np.abs(strong.block.acc_ms2) >= 20.0).any(axis=1).sum())
    assert bench.state()["counters"].get("saturated", 0) == (expected if is_full else 0)


def test_device_on_a_table_is_not_worn_and_has_no_normal_window(recordings: dict[str, Recording]) -> None:
    """After a minute without motion, which is no fault of scoring; walking is worn."""
    bench, worn = (played(recordings["WAL 300"], fault) for fault in ("not-worn", None))
    assert (bench.state()["not_worn"], worn.state()["not_worn"]) == (True, False)
    assert (bench.state()["state"], bench.state()["counters"]["not_worn"]) == ("waiting", 1)
    assert "not_scored" not in named(bench)
    assert worn.state()["state"] == "normal"
    n = bench.state()["counters"]
    assert (n["windows"] - n["unscorable"]) == pytest.approx(60.0 / 0.5, abs=3)


@pytest.mark.parametrize("activity", ACTIVITIES)
def test_undisturbed_replay_shows_little(recordings: dict[str, Recording], activity: str) -> None:
    """A recording that is as it should be has no fault of the sensor."""
    assert named(played(recordings[activity], None)) <= {"no_data", "gap", "late", "rate_too_low"}


def test_every_name_is_documented_with_what_provokes_it() -> None:
    """docs/quality.md has a row for each name that is tried here, with its faults, and no row that is not."""
    rows: dict[str, set[str]] = {}
    table = DOC.read_text().partition("| `acc_stuck`")
    for line in (table[1] + table[2]).partition("\n\n")[0].splitlines():
        name, *_, faults = line.strip("| ").split(" | ")
        for each in re.findall(r"`(\w[\w<>]*)`", name):
            rows[each] = {found.partition(":")[0] for found in re.findall(r"`([a-z-]+)[:\[`]", faults)}
    provoked: dict[str, set[str]] = {}
    for fault, _, name, _ in EXPECTED:
        documented = "acc_unit_<sent>_as_<declared>" if name.startswith("acc_unit_") else name
        provoked.setdefault(documented, set()).add(fault.partition(":")[0])
    assert rows.keys() == provoked.keys()
    assert {name: provoked[name] - faults for name, faults in rows.items() if provoked[name] - faults} == {}


def test_every_fault_is_tried() -> None:
    """A new file among the simulators' faults needs its row here."""
    assert {fault.partition(":")[0] for fault, *_ in EXPECTED} == set(fault_names())


def test_what_is_true_besides_is_documented() -> None:
    """docs/quality.md has a row for each fault that gets a second name, with that name."""
    table = DOC.read_text().partition("## Two names")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \|", table, re.MULTILINE)
    assert dict(rows) == {fault: next(iter(names)) for fault, names in BESIDES.items() if names}


@pytest.mark.parametrize("text", ["stuk", "stuck:x", "stuck:nan", "stuck:", "_private", ""])
def test_unknown_fault_is_refused_in_one_line(text: str) -> None:
    """With what would have been right."""
    with pytest.raises(UsageError, match=r"--fault"):
        load_fault(text)


@pytest.mark.parametrize("value", ["9", "-1", "7", "1.5"])
def test_signal_that_no_device_has_cannot_stick(value: str) -> None:
    """Nor can there be one without a number behind the colon."""
    with pytest.raises(UsageError, match=r"--fault stuck: must have a whole number from 0 to 6 behind the colon"):
        load_fault(f"stuck:{value}")


@pytest.mark.parametrize("value", ["0", "1e300", "-1e300", "nan", "inf", "-inf", "", "x"])
@pytest.mark.parametrize("fault", fault_names())
def test_strength_that_makes_no_fault_is_refused(fault: str, value: str) -> None:
    """In one line that names the bounds, whatever the fault; 0 is the least of some."""
    if value == "0" and load_plugin(FAMILY, fault, kind="", error=UsageError).BOUNDS[0] <= 0:
        return
    with pytest.raises(
        UsageError, match=rf"^--fault {fault}: must have a (whole )?number from \S+ to \S+ behind the col"
    ):
        load_fault(f"{fault}:{value}")


@pytest.mark.parametrize("text", ["gravity:0", "noise:-1", "not-worn:-1", "rate:0", "skew:1e300"])
def test_replay_with_a_strength_that_makes_no_fault_ends_at_once(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line, before anything is connected."""
    assert run(["replay", "--synthetic", "1", "--port", "1", "--fault", text]) == 2
    assert re.fullmatch(r"stream-occ: --fault .*number from .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("fault", fault_names())
def test_least_and_greatest_strength_can_be_played(fault: str, end: int) -> None:
    """Stamps stay integers above 0, values finite but for fault `nan`, and nothing warns."""
    bounds = load_plugin(FAMILY, fault, kind="", error=UsageError).BOUNDS
    disturb = load_fault(f"{fault}:{bounds[end]}")()
    for second in range(30):
        k = np.arange(50 * second, 50 * second + 50)
        sent = disturb(SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), np.ones((50, 3)), np.ones((50, 3))))
        assert sent.t_ns.dtype == np.int64
        assert (sent.t_ns > 0).all()
        assert fault == "nan" or np.isfinite(np.hstack([sent.acc_ms2, sent.gyr_rads])).all()


def test_what_a_codec_cannot_say_is_refused_in_one_line(recordings: dict[str, Recording]) -> None:
    """JSON has no NaN."""
    with pytest.raises(UsageError, match="Replay it as msgpack"):
        replay({"w1": [recordings["WAL"]]}, lambda *_: None, JSON, speed=float("inf"), fault=load_fault("nan"))


@pytest.mark.parametrize("fault", fault_names())
def test_fault_is_the_same_however_messages_are_cut(fault: str) -> None:
    """One message or many: the device sends the same samples."""
    rng = np.random.default_rng(0)
    t_ns = T0_NS + np.arange(2000) * (NS_PER_S // 50)
    whole = SampleBlock("w1", t_ns, rng.normal(0, 9, (2000, 3)), rng.normal(0, 2, (2000, 3)))
    once, parts = load_fault(fault)()(whole), []
    disturb = load_fault(fault)()
    for a, b in pairwise([0, 1, 13, 500, 501, 2000]):
        parts.append(disturb(SampleBlock("w1", t_ns[a:b], whole.acc_ms2[a:b], whole.gyr_rads[a:b])))
    for name in ("t_ns", "acc_ms2", "gyr_rads"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(once, name))
