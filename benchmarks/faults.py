"""What is lost and doubled while troubles are made, at random instants, for real processes around a real mosquitto.

    python benchmarks/faults.py --kills 20 --seeds 1..5 --json faults.json
    python benchmarks/faults.py --kills 20 --seeds 1..5 --broker-keeps nothing
    python benchmarks/faults.py --trouble half-open=20 --trouble disk-full=20 --seeds 1,7

kill (SIGKILL of broker, detector, receiver), half-open (links that pass nothing and do not end), slow-broker,
full-broker (a queue of 50 messages), disk-full (no room for the detector's state), clock-jump (by an hour, and back).

A sender plays devices that number their messages and send again what they are not told of; each device falls once. A
receiver keeps each event in a file of its own, then says that it has it. Afterwards the files are compared: what was
sent with what the detector took, and what it told with what the receiver has. Prints a line for each seed and one of
totals. Exit code 1 where they differ for any seed, where a window is more than the sent samples and the silences give,
or where the detector did not notice or name a trouble, or the broker that was to be full was not.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from benchmarks.fault_parts.disk import Disk  # noqa: E402
from benchmarks.fault_parts.ends import FALL_MESSAGES, FIRST_FALL, N_SAMPLES, PERIOD_S  # noqa: E402
from benchmarks.fault_parts.proxy import Proxy  # noqa: E402
from benchmarks.fault_parts.stage import KEEPALIVE_S, PARTS, TROUBLES, Stage  # noqa: E402
from stream_occ.pipeline import DeviceState  # noqa: E402
from stream_occ.samples import NS_PER_S  # noqa: E402
from stream_occ.store import Store  # noqa: E402
from tests.integration.broker import Broker  # noqa: E402
from tests.integration.detector import Detector  # noqa: E402
from tests.service_model import make_model  # noqa: E402

WINDOW_SAMPLES, HOP_SAMPLES = 50, 25
NOT_FROM_FILE = ("#", "listener", "allow_anonymous", "persistence_location")
SHIPPED = (REPO / "configs" / "mosquitto.conf").read_text().splitlines()
KEEPS = {"nothing": "", "everything": "".join(f"{x}\n" for x in SHIPPED if x and not x.startswith(NOT_FROM_FILE))}
FULL_AT = 50  # messages, half a second of 20 devices
EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 2.0, "repeat_s": 5.0, "refractory_s": 3600.0}
DRAIN_S = 90.0  # without a step towards rest
MUST_BE_0 = (
    *("lost_", "doubled_", "invented_", "holes", "historical_"),
    *("unnoticed_", "unnamed_", "unfilled_", "full_disks_", "ends_", "unsettled_"),
)


def run(
    folder: Path,
    troubles: Mapping[str, int],
    *,
    seed: int,
    n_devices: int,
    broker_keeps: str,
    broker_queue: int | None = None,
    devices_forget: bool = False,
) -> dict[str, Any]:
    """One run with so many troubles of each kind; the figures, of which those in MUST_BE_0 should be 0.

    broker_queue: messages that the broker queues for a client. devices_forget: they neither number nor send again.
    """
    rng = random.Random(seed)
    order = [name for name, n in troubles.items() for _ in range(n)]
    waits_s = [rng.uniform(0.5, 3.0) for _ in order]
    if len(troubles) > 1:
        rng.shuffle(order)
    stage = _stage(
        folder, broker_keeps, FULL_AT if broker_queue is None and "full-broker" in troubles else broker_queue
    )
    stage.has_small_queue = broker_queue is None
    inputs = [{"pattern": "wearables/{device}/imu", "resends": not devices_forget}]
    try:
        stage.detector = Detector(
            folder,
            stage.proxy.port,
            make_model(folder),
            events=EVENTS,
            inputs=inputs,
            receivers=["receiver"],
            log={"level": "warning"},
            mqtt={"keepalive_s": KEEPALIVE_S},
            state={"path": str(stage.disk.state)},
        )
        stage.detector.program = [sys.executable, str(PARTS / "detect.py"), str(stage.clock), str(stage.closings)]
        with stage.detector:
            stage.start_child("receiver")
            spacing = (sum(waits_s) + sum(TROUBLES[name][1] for name in order)) / PERIOD_S / n_devices
            more = ["--forgets"] if devices_forget else []
            stage.start_child("sender", "--devices", str(n_devices), "--fall-spacing", str(spacing), *more)
            if "clock-jump" in troubles:  # a device first heard while the clock is wrong looks late: a documented limit
                with stage.watch("stream_occ/+/state") as watcher:
                    stage.within("unnoticed_devices", lambda: len(watcher.last) == n_devices, DRAIN_S)
            for wait_s, name in zip(waits_s, order, strict=True):
                time.sleep(wait_s)
                TROUBLES[name][0](stage, rng)
                _look_whether_it_lives(stage)
            return {"seed": seed, "troubles": dict(troubles)} | _settle(stage, n_devices, spacing)
    finally:
        stage.close()


def _stage(folder: Path, broker_keeps: str, broker_queue: int | None) -> Stage:
    (folder / "broker").mkdir()
    extra = KEEPS[broker_keeps] + (f"persistence_location {folder / 'broker'}/\n" if KEEPS[broker_keeps] else "")
    extra += "sys_interval 1\n" + ("" if broker_queue is None else f"max_queued_messages {broker_queue}\n")
    broker = Broker.start(folder / "broker", extra=extra)
    stage = Stage(folder, broker, Proxy(broker.port), Disk.make(folder / "disk"))
    stage.clock.write_text("0")
    return stage


def _look_whether_it_lives(stage: Stage) -> None:
    """A detector that ended by itself is counted and started again."""
    process = stage.detector.process
    assert process is not None
    if process.poll() is not None:
        stage.counts["ends_of_the_detector"] += 1
        assert process.stdout is not None
        process.stdout.close()
        stage.start("detector")


def _settle(stage: Stage, n_devices: int, fall_spacing: float) -> dict[str, Any]:
    """Nothing is killed any more: every alert is acknowledged by a person, all comes to rest, and is compared."""
    folder = stage.folder
    last_fall = FIRST_FALL + n_devices * fall_spacing
    started_s = time.monotonic()
    while True:  # until the last device has fallen and everyone has an open alert
        _look_whether_it_lives(stage)
        with stage.watch("stream_occ/+/alert") as watcher:
            time.sleep(1.0)
            is_open = [json.loads(text or b"{}").get("state") == "alarm" for text in watcher.last.values()]
            if sum(is_open) == n_devices or time.monotonic() - started_s > DRAIN_S + last_fall * PERIOD_S:
                for i in range(n_devices):
                    watcher.send(f"stream_occ/d{i}/set/ack", b'{"by": "harness"}')
                break
    (folder / "stop").touch()
    before, changed_s = None, 0.0
    while True:  # a busy machine takes its time: what counts is that it goes on
        n_waiting, numbers = standing = _standing(stage.disk.state)
        if (folder / "sender.json").exists() and n_waiting == 0:
            break
        if standing != before:
            before, changed_s = standing, time.monotonic()
        is_still = time.monotonic() > changed_s + DRAIN_S
        assert not is_still, f"nothing moves for {DRAIN_S:g} s: {n_waiting} events wait, devices are at {numbers}"
        time.sleep(0.2)
    assert stage.detector.stop() == 0, stage.detector.log.read_text()[-2000:]
    return _compared(stage, n_devices)


def _standing(path: Path) -> tuple[int, list[tuple[str, str]]]:
    """How many events wait for their receiver, and the last number that was taken of each device."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        n: int = db.execute("SELECT count(*) FROM outbox").fetchone()[0]
        numbers = db.execute("SELECT device_id, number FROM numbers ORDER BY device_id").fetchall()
    db.close()
    return n, numbers


def _compared(stage: Stage, n_devices: int) -> dict[str, Any]:
    folder = stage.folder
    sent = json.loads((folder / "sender.json").read_text())
    n_samples = sent["messages_each"] * N_SAMPLES
    store = Store(stage.disk.state)
    states = {name: saved.state for name, saved in store.devices().items()}
    told = {(alert.alert_id, alert.seq): alert for i in range(n_devices) for alert in store.history(f"d{i}")}
    store.close()
    with sqlite3.connect(folder / "receiver.db") as db:
        got = {(alert_id, seq): n for alert_id, seq, n in db.execute("SELECT alert_id, seq, n FROM got")}
    db.close()
    counters = [state.resampler.counters for state in states.values() if state is not None]
    alerts = Counter(device_id for _, device_id in {(alert.alert_id, alert.device_id) for alert in told.values()})
    return {
        "kills": dict(stage.kills),
        **stage.counts,
        "devices": n_devices,
        "samples_sent": n_samples * n_devices,
        "messages_sent_again": sent["sent_in_all"] - sent["messages_each"] * n_devices,
        "lost_samples": n_samples * n_devices - sum(c.n_samples - c.late - c.duplicate for c in counters),
        "doubled_samples": sum(c.late + c.duplicate for c in counters),
        "holes": sum(c.gap + c.interpolated + c.clock_reset for c in counters),
        **windows(
            (n_samples - WINDOW_SAMPLES) // HOP_SAMPLES + 1,
            {f"d{i}": _n_windows(states.get(f"d{i}")) for i in range(n_devices)},
            _closings_in_falls(stage.closings, sent),
        ),
        "falls": n_devices,
        "lost_alerts": n_devices - len(alerts),
        "doubled_alerts": sum(alerts.values()) - len(alerts),
        "historical_alerts": len({alert.alert_id for alert in told.values() if "historical" in alert.reasons}),
        "events_told": len(told),
        "lost_events": len(told.keys() - got.keys()),
        "invented_events": len(got.keys() - told.keys()),
        "events_delivered_again": sum(got.values()) - len(got),
    }


def _n_windows(state: DeviceState | None) -> tuple[int, int]:
    """Windows at their places in the stream, where it has one segment, and all that counted."""
    if state is None:
        return 0, 0
    counters = state.resampler.counters
    is_broken = counters.gap + counters.clock_reset > 0
    return state.n_windows if is_broken else state.cutter.next_start // HOP_SAMPLES, state.n_windows


def _closings_in_falls(path: Path, sent: Mapping[str, Any]) -> Counter[str]:
    """By device, how many different windows were cut at a silence within its fall; elsewhere they do not count."""
    found: Counter[str] = Counter()
    for name, t_ns in {tuple(line.split()) for line in path.read_text().splitlines()} if path.exists() else ():
        into_s = (int(t_ns) - sent["t0_ns"]) / NS_PER_S - sent["fall_at"][name] * PERIOD_S
        found[name] += 0.0 < into_s < FALL_MESSAGES * PERIOD_S + WINDOW_SAMPLES * PERIOD_S / N_SAMPLES
    return found


def windows(n_due: int, taken: Mapping[str, tuple[int, int]], at_silences: Mapping[str, int]) -> dict[str, int]:
    """What became of each device's n_due windows; taken: those at their places, and all that counted.

    A stream that falls silent is looked at once more, off the hop, and that window counts where it is flagged: more
    than n_due are explained by at_silences, and what is not is double.
    """
    further = {name: max(0, n - n_due) for name, (_, n) in taken.items()}
    return {
        "windows": sum(n for _, n in taken.values()),
        "windows_at_silences": sum(min(n, at_silences.get(name, 0)) for name, n in further.items()),
        "lost_windows": sum(max(0, n_due - min(ns)) for ns in taken.values()),
        "doubled_windows": sum(max(0, n - at_silences.get(name, 0)) for name, n in further.items()),
    }


def total(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The runs' figures added up, with the list of their seeds."""
    added: dict[str, Any] = {"seeds": [one["seed"] for one in runs]}
    for figures in runs:
        for name, value in figures.items():
            if isinstance(value, Mapping):
                added[name] = dict(Counter(added.get(name, {})) + Counter(value))
            elif name != "seed":
                added[name] = added.get(name, 0) + value
    return added


def failures(figures: Mapping[str, Any]) -> list[str]:
    """What should be 0 and is not."""
    return [name for name, value in figures.items() if name.startswith(MUST_BE_0) and value != 0]


def _trouble(text: str) -> tuple[str, int]:
    name, _, n = text.partition("=")
    if name not in TROUBLES:
        raise argparse.ArgumentTypeError(f"one of {', '.join(TROUBLES)}; got {name}")
    return name, int(n or 20)


def _seeds(text: str) -> list[int]:
    """`3`, `1,4,9` or `1..5`."""
    try:
        first, dots, last = text.partition("..")
        seeds = list(range(int(first), int(last) + 1)) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds:
        raise argparse.ArgumentTypeError(f"seeds are 3, 1,4,9 or 1..5; got {text}")
    return seeds


def _run(seed: int, troubles: Mapping[str, int], **options: Any) -> dict[str, Any]:
    """One run in a folder of its own; one that never comes to rest does not keep the other seeds from theirs."""
    with tempfile.TemporaryDirectory() as name:
        try:
            return run(Path(name), troubles, seed=seed, **options)
        except AssertionError:
            traceback.print_exc()
            return {"seed": seed, "troubles": dict(troubles), "unsettled_runs": 1}


def main() -> int:
    """Prints the figures, and writes them to --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = "|".join(TROUBLES)
    parser.add_argument("--trouble", type=_trouble, action="append", default=[], metavar=f"{{{kinds}}}[=N]")
    parser.add_argument("--kills", type=int, help="the same as --trouble kill=N; 100 where no trouble is named")
    parser.add_argument("--seeds", type=_seeds, default=[0], help="one run for each: 3, 1,4,9 or 1..5")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--devices-forget", action="store_true", help="they neither number nor send again")
    parser.add_argument("--broker-keeps", choices=sorted(KEEPS), default="everything")
    parser.add_argument("--broker-queue", type=int, help="messages for one client; mosquitto's own default is 1000")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    troubles = dict(given.trouble)
    if given.kills is not None or not troubles:
        troubles["kill"] = 100 if given.kills is None else given.kills
    runs = []
    for seed in given.seeds:
        figures = _run(
            seed,
            troubles,
            n_devices=given.devices,
            broker_keeps=given.broker_keeps,
            broker_queue=given.broker_queue,
            devices_forget=given.devices_forget,
        )
        runs.append(figures)
        print(json.dumps(figures), flush=True)
    totals = total(runs)
    wrong = failures(totals)
    print(json.dumps(totals | {"wrong": wrong}))
    if given.json is not None:
        given.json.write_text(json.dumps(totals | {"wrong": wrong, "runs": runs}, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
