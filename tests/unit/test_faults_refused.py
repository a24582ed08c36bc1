"""A window over a message that was refused, or for which there was no room, is never normal: samples are missing.

A device sends a message of 0.2 s at 50 Hz, 100 of them, and every window is far below the threshold; one message is not
as it should be. Windows of 3 s, of which some bridge the hole that it leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.codecs import REASONS
from stream_occ.inbox import MAX_LOST_TOPICS, Inbox, Received, Token
from stream_occ.intake import HOLDS_NONE
from stream_occ.keeping import Keeper
from stream_occ.messages import SERVICE_REASONS
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.store import Store
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

TOPIC = "wearables/w1/imu"
N, BAD, STEP_NS = 10, 50, NS_PER_S // 50  # samples of a message, and which of them is refused
LAST_NS, NEXT_NS = T0_NS + (N * BAD - 1) * STEP_NS, T0_NS + N * (BAD + 1) * STEP_NS  # around the hole
DOC = Path(__file__).resolve().parents[2] / "docs" / "quality.md"


def walk(i: int) -> SampleBlock:
    """The i-th message; no signal keeps its value."""
    k = np.arange(N * i, N * i + N)
    acc = np.stack([0.01 * (k % 3), 0.01 * np.sin(0.4 * k), 9.81 + 2 * np.sin(0.25 * k)], axis=1)
    return SampleBlock("w1", T0_NS + k * STEP_NS, acc, 0.001 * np.stack([k % 3, k % 5, k % 7], axis=1))


def changed(key: str, value: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda message: json.dumps({**message, key: value}).encode()


def first(value: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda message: json.dumps({**message, "acc": [[value, 0.0, 9.8], *message["acc"][1:]]}).encode()


REFUSED: dict[str, tuple[str, Callable[[dict[str, Any]], bytes]]] = {
    "NaN": ("not_finite", first(float("nan"))),
    "null": ("not_finite", first(None)),
    "text": ("not_a_number", first("nan")),
    "1e6": ("value_out_of_range", first(1e6)),
    "row of two": ("wrong_shape", lambda m: json.dumps({**m, "acc": [m["acc"][0][:2], *m["acc"][1:]]}).encode()),
    "no gyroscope": ("missing_gyro", changed("gyr", None)),
    "cut off": ("invalid_json", lambda m: json.dumps(m).encode()[:-30]),
    "a garbled byte": ("invalid_utf8", lambda m: b"\xff" + json.dumps(m).encode()),
    "a stamp that is none": ("stamp_invalid", changed("t_ns", ["x"] * N)),
    "another unit": ("unit_unsupported", changed("units", {"acc": "ft/s2"})),
    "another epoch": ("epoch_unit", lambda m: json.dumps({**m, "t_ns": [t // 1000 for t in m["t_ns"]]}).encode()),
    "a clock that is lost": ("stamp_out_of_range", lambda m: json.dumps({**m, "t_ns": [*range(N)]}).encode()),
    "another device": ("device_mismatch", changed("device", "w2")),
    "too large": ("payload_too_large", changed("note", "x" * 2_000_000)),
}


def bench_of(**sections: Any) -> Bench:
    output = {"publish_score": True, "state_interval_s": 0.2}
    return Bench(toy_model(threshold=1e6, window_s=3.0, hop_s=0.5), output=output, **sections)


def play(bench: Bench, upto: int, *, start: int = 0, odd: Callable[[int], bytes | None] = lambda i: None) -> None:
    """Messages start, ..., upto - 1, each when it is due; odd: another payload in place of one."""
    for i in range(start, upto):
        bench.deliver(TOPIC, odd(i) or JSON.encode(walk(i)))
        bench.run(0.2)


def over_hole(bench: Bench) -> list[str]:
    """Labels of windows that bridge the hole."""
    scores = bench.link.of("stream_occ/w1/score")
    return [s["label"] for s in scores if s["t_ns"] >= NEXT_NS and s["t_ns"] - 3 * NS_PER_S <= LAST_NS]


@pytest.mark.parametrize("kind", REFUSED)
def test_window_over_a_refused_message_is_not_normal(kind: str) -> None:
    """Whatever it was refused for: it may have held samples, and what they showed nobody knows."""
    reason, spoilt = REFUSED[kind]
    bench = bench_of()
    play(bench, 100, odd=lambda i: spoilt(json.loads(JSON.encode(walk(i)))) if i == BAD else None)
    assert bench.service.counters().refused == {reason: 1}
    assert over_hole(bench) == []
    assert bench.state()["counters"]["unscorable"] == 6
    assert bench.state()["state"] == "normal"  # again


def test_impact_beside_a_refused_message_is_flagged() -> None:
    """No verdict is none that is normal; what is above the threshold is told."""
    bench = Bench(toy_model(threshold=-1.0, window_s=3.0, hop_s=0.5), output={"publish_score": True})
    play(bench, 100, odd=lambda i: b"{" if i == BAD else None)
    assert over_hole(bench) == ["outlier"] * 6


@pytest.mark.parametrize("payload", [b'{"battery": 80}', b""])
def test_message_of_another_kind_costs_no_verdict(payload: bytes) -> None:
    """A battery's level between two messages of samples; an empty one, with which retained topics are cleared."""
    bench, plain = bench_of(), bench_of()
    play(bench, 50)
    bench.deliver(TOPIC, payload)
    play(bench, 100, start=50)
    play(plain, 100)
    assert sum(bench.service.counters().refused.values()) == 1
    assert bench.link.of("stream_occ/w1/score") == plain.link.of("stream_occ/w1/score")


def test_what_holds_no_samples_is_documented() -> None:
    """By the names of reasons that there are."""
    assert REASONS.keys() | SERVICE_REASONS.keys() >= HOLDS_NONE
    line = next(
        line for line in DOC.read_text().splitlines() if line.startswith("No samples are in messages refused as")
    )
    assert {word for word in HOLDS_NONE if f"`{word}`" in line} == HOLDS_NONE


def put(bench: Bench, payload: bytes, mid: int) -> None:
    token = Token(1, mid, 1)
    bench.inbox.put(Received.of(TOPIC, payload, is_retained=False, arrived_s=bench.now_s, max_bytes=10**6, token=token))


@pytest.mark.parametrize("is_killed", [False, True])
def test_restart_forgets_no_refused_message(tmp_path: Path, *, is_killed: bool) -> None:
    """Once its message is acknowledged the loss is on the disk, after an ordinary end and after a kill."""

    def started(at_s: float) -> tuple[Keeper, Bench]:
        keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=5.0, is_wanted=True)
        bench = bench_of(keeper=keeper)
        bench.now_s = at_s
        return keeper, bench

    keeper, bench = started(0.0)
    for i in range(BAD + 1):
        put(bench, JSON.encode(walk(i)) if i < BAD else b"{", i)
        bench.run(0.2)
    for _ in range(30):
        bench.run(0.2)
    assert [token.mid for token in bench.link.acknowledged] == [*range(BAD + 1)]
    if not is_killed:
        bench.service.close()
    keeper.close()
    keeper, after = started(bench.now_s)
    play(after, 100, start=BAD + 1)
    keeper.close()
    assert over_hole(bench) + over_hole(after) == []
    assert len(after.link.of("stream_occ/w1/score")) > 10


def test_message_without_room_is_counted_for_its_device_and_no_other() -> None:
    """The queue holds ten: one of w2, nine of nobody, and then w1's is lost."""
    bench = bench_of(limits={"queue_messages": 10})
    for i in range(100):
        bench.deliver("wearables/w2/imu", JSON.encode(replace(walk(i), device_id="w2")))
        if i == BAD:
            assert [bench.deliver("other", b"") for _ in range(10)] == [True] * 9 + [False]
        bench.deliver(TOPIC, JSON.encode(walk(i)))
        bench.run(0.2)
    assert over_hole(bench) == []
    assert (bench.state()["counters"]["queue_full"], bench.state()["counters"]["unscorable"]) == (1, 6)
    assert not bench.state("w2")["counters"].keys() & {"queue_full", "unscorable"}
    assert bench.service.counters().refused == {"no_input": 9, "queue_full": 2}


def test_note_of_what_was_lost_is_bounded() -> None:
    """Beyond so many topics the note says a number alone, and any device may miss samples."""
    inbox = Inbox(1, 10)
    for i in range(MAX_LOST_TOPICS + 3):
        inbox.put(Received(f"t{i}", b"", False, 0.0, 0))
    inbox.drain()
    inbox.put(Received("t", b"", False, 0.0, 0))
    note, message = inbox.drain()
    assert note.lost is not None
    assert (len(note.lost), note.lost[""], note.lost["t1"], message.topic) == (MAX_LOST_TOPICS + 1, 2, 1, "t")
    bench = bench_of()
    play(bench, BAD)
    bench.inbox._lost = {"": 2}
    play(bench, 100, start=BAD + 1)
    assert over_hole(bench) == []


def test_notes_of_what_was_lost_count_in_the_bytes_of_the_queue() -> None:
    """A slow worker and a flood of topics of 100 bytes: never more than the bound of 2,000 and one note."""
    inbox = Inbox(1000, 2000)
    for i in range(6000):
        inbox.put(Received(f"{i:0100d}", b"", False, 0.0, 0))
        if i % 30 == 29:
            inbox.drain(100)
            held = sum(len(topic) for message in inbox._queue for topic in message.lost or [message.topic])
            assert held == inbox.n_bytes <= 2000 + 100 * MAX_LOST_TOPICS


def test_samples_lost_to_an_error_of_ours_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails, and fails for the device alone: the state goes on behind the hole."""
    bench = bench_of()
    play(bench, BAD)
    with monkeypatch.context() as patch:
        patch.setattr("stream_occ.pipeline.Pipeline.step", lambda *_, **__: 1 / 0)
        play(bench, BAD + 1, start=BAD)
    play(bench, 100, start=BAD + 1)
    assert bench.state()["counters"]["internal_error"] == 1
    assert over_hole(bench) == []


def test_sensors_apart_lose_a_message_of_one() -> None:
    """The gyroscope's is refused; no window that holds what was made up for it is normal."""
    profile = {"nominal_rate_hz": 50, "acc_unit": "m/s2", "gyr_unit": "rad/s"}
    bench = bench_of(inputs=[{"pattern": "wearables/{device}/imu", "codec": "movesense", "profile": profile}])
    for i in range(100):
        block = walk(i)
        for key, rows in (("ArrayAcc", block.acc_ms2), ("ArrayGyro", block.gyr_rads)):
            values = [dict(zip("xyz", row, strict=True)) for row in rows.tolist()]
            if i == BAD and key == "ArrayGyro":
                values[0]["x"] = None  # type: ignore[assignment]
            stamp_ms = (int(block.t_ns[0]) - T0_NS) // 10**6 + T0_NS // 10**6
            bench.deliver(TOPIC, json.dumps({"Timestamp": stamp_ms, key: values}).encode())
        bench.run(0.2)
    scores = bench.link.of("stream_occ/w1/score")
    assert len(scores) > 20
    assert bench.service.counters().refused == {"not_finite": 1}
    touched = [s for s in scores if s["t_ns"] > LAST_NS and s["t_ns"] - 3 * NS_PER_S < NEXT_NS]
    assert [s["label"] for s in touched] == []
