"""One demo: broker, training, service, wearers, and what came of it."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from simulators.publisher import TOPIC, Publisher
from simulators.replay import Due, ReplayReport, replay
from stream_occ.codecs import load_codec
from stream_occ.demo.broker import BrokerKind, EmbeddedBroker, embedded_broker
from stream_occ.demo.carer import Carer
from stream_occ.demo.children import Child
from stream_occ.demo.ledger import Ledger, Line, Outcome
from stream_occ.demo.model import WINDOW_S, train_demo_model
from stream_occ.demo.screen import Screen, summary_lines
from stream_occ.demo.wearers import RATE_HZ, Plan
from stream_occ.errors import ServiceError
from stream_occ.inbox import Received
from stream_occ.mqtt import MqttLink, MqttOptions, Subscription
from stream_occ.samples import NS_PER_S, Recording
from stream_occ.topics import Topics

PREFIX = "stream_occ"
READY_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 30.0  # without a new score
DRAIN_QUIET_S = 3.0  # the same, where what is left may be windows without a verdict, which tell no score
UNTOLD_S = 30.0  # at the end of a wearer's stream, at most
CHECK_EVERY_S = 0.1
CODEC = "json"
LIVE_WITHIN_S = 604_800.0  # played faster than life, and to its end by now: its stamps are old


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What came of a demo, and how it was run."""

    plan: Plan
    outcome: Outcome
    broker: BrokerKind
    model_id: str
    wall_s: float
    behind_s: float
    start_ns: int

    def as_json(self) -> dict[str, Any]:
        """The result as plain JSON; the first six keys are a promise."""
        outcome, plan = self.outcome, self.plan
        return {
            "falls_simulated": len(outcome.falls),
            "falls_flagged": outcome.n_flagged,
            "falls_missed": len(outcome.falls) - outcome.n_flagged,
            "false_alarms": len(outcome.false_alarms),
            "median_delay_s": outcome.median_delay_s,
            "seed": plan.seed,
            "minutes": plan.minutes,
            "speed": plan.speed,
            "wearers": plan.n_wearers,
            "wear_hours": plan.n_wearers * plan.data_s / 3600,
            "windows_scored": outcome.n_windows,
            "broker": self.broker,
            "model": self.model_id,
            "wall_s": self.wall_s,
            "worst_lag_s": self.behind_s,
            "falls": [
                {"device": f.device_id, "kind": f.kind, "t_s": self._t_s(f.t_start_ns), "delay_s": f.delay_s}
                for f in outcome.falls
            ],
            "false_alarm_list": [
                {"device": device_id, "t_s": self._t_s(t_ns), "activity": activity}
                for device_id, t_ns, activity in outcome.false_alarms
            ],
        }

    def _t_s(self, t_ns: int) -> float:
        return (t_ns - self.start_ns) / NS_PER_S


def run_demo(
    plan: Plan, screen: Screen, *, broker_kind: BrokerKind | None = None, with_page: bool = False
) -> DemoResult:
    """Runs the whole demo in a temporary folder; raises ServiceError where the service or the broker failed.

    with_page: the dashboard runs beside it; at a terminal both stay after the summary, until Ctrl-C.
    """
    began_s = time.monotonic()
    with ExitStack() as open_until_end:
        folder = Path(open_until_end.enter_context(tempfile.TemporaryDirectory(prefix="stream_occ-demo-")))
        broker = open_until_end.enter_context(embedded_broker(folder, kind=broker_kind))
        screen.say(f"Broker: {broker.kind} on {broker.host}:{broker.port}")
        config = folder / "demo.yaml"
        config.write_text(yaml.safe_dump(service_config(broker)), encoding="utf-8")
        if with_page:
            page = open_until_end.enter_context(_command(folder, "dashboard", "--port", "0",
                                                         "--history", str(folder / "dashboard.history")))  # fmt: skip
            screen.say(f"Dashboard: {_wait_until_ready(page)}")
        screen.say(f"Training on the normal activity of {plan.n_wearers} synthetic wearers (no falls)")
        with screen.progress() as report:
            model = train_demo_model(plan, folder / "demo.occ", report)
        screen.say(f"Model {model.model_id}: {model.feature_set.name}, {type(model.scorer).KIND}")
        is_kept = with_page and screen.is_live
        with _command(folder, "detect") as service:
            ledger, carer, start_ns, played = _stream(plan, screen, broker, service)
            if not is_kept:
                _check_end(service, ledger)
            wall_s = time.monotonic() - began_s
            outcome = ledger.settle()
            _say_end(screen, carer, outcome, plan, wall_s)
            if is_kept:
                screen.say("The wearers have gone; service and dashboard stay until Ctrl-C")
                with suppress(KeyboardInterrupt):
                    threading.Event().wait()
                _check_end(service, ledger)
    return DemoResult(plan, outcome, broker.kind, model.model_id, wall_s, played.behind_s, start_ns)


def _say_end(screen: Screen, carer: Carer, outcome: Outcome, plan: Plan, wall_s: float) -> None:
    n_taken, n_cleared = carer.n_acknowledged, carer.n_cleared
    screen.say(
        f"A simulated carer acknowledged {n_taken} alarms and gave {n_cleared} all clears, over set/ack and set/cancel"
    )
    for line in summary_lines(outcome, plan.n_wearers * plan.data_s / 3600, wall_s):
        screen.say(line)


def _command(folder: Path, name: str, *options: str) -> Child:
    """One of our commands with the demo's configuration, in a process of its own."""
    argv = [sys.executable, "-m", "stream_occ", name, "-c", str(folder / "demo.yaml"), *options]
    return Child(argv, log_file=folder / f"{name}.log", env=_environment())


def service_config(broker: EmbeddedBroker) -> dict[str, Any]:
    """The service's configuration: a shorter countdown than in production; stamps far behind the clock are live."""
    return {
        "mqtt": {
            "host": broker.host,
            "port": broker.port,
            "prefix": PREFIX,
            "client_id": "stream-occ-demo",
            "session_expiry_s": 0,
        },
        "inputs": [{"pattern": TOPIC, "codec": CODEC, "profile": {"placement": "thigh"}}],
        "model": "demo.occ",
        "events": {"k": 2, "n": 3, "countdown_s": 8.0, "refractory_s": 30.0, "live_within_s": LIVE_WITHIN_S},
        "output": {"publish_score": True, "slice_s": 0.05},
        "state": {"enabled": False},
        "log": {"level": "warning"},
    }


def _environment() -> dict[str, str]:
    """Ours, without overrides meant for another service, and with one BLAS thread."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_OCC__")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def _stream(
    plan: Plan, screen: Screen, broker: EmbeddedBroker, service: Child
) -> tuple[Ledger, Carer, int, ReplayReport]:
    """Waits for the service, streams the wearers, and waits until the service has scored all of it."""
    ledger = Ledger({device_id: Line() for device_id in plan.device_ids})
    with _listening(broker, ledger, screen, plan.speed) as carer:
        _wait_until_ready(service)
        n_falls = plan.n_falls * plan.n_wearers
        screen.say(f"Streaming {plan.n_wearers} wearers at {plan.speed:g} times real time, {n_falls} falls to come")
        streams: Mapping[str, _Life] = {name: _Life(live) for name, live in plan.replayed_lives().items()}
        start_ns = time.time_ns() - round(plan.data_s * NS_PER_S)  # so that no stamp lies in the future
        began_s = time.monotonic()
        now: dict[str, int] = {}
        next_check_s = 0.0

        def follow(_: ReplayReport, due: Due) -> None:
            nonlocal next_check_s
            placed = due.placed
            if now.get(due.device_id) != placed.t_start_ns:
                now[due.device_id] = placed.t_start_ns
                ledger.begin_activity(due.device_id, placed.activity, placed.t_start_ns, placed.fall_interval_ns)
            carer.act(time.monotonic())
            elapsed_s = time.monotonic() - began_s
            if elapsed_s >= next_check_s:
                next_check_s = elapsed_s + CHECK_EVERY_S
                _check_running(service)
                screen.show(ledger, elapsed_s, plan.data_s / plan.speed)

        options = MqttOptions(broker.host, broker.port, f"demo-wearers-{secrets.token_hex(4)}")
        with screen.live(), Publisher(options) as publish:
            report = replay(
                streams, publish, load_codec(CODEC), speed=plan.speed, pause_s=1.0 / RATE_HZ, start_ns=start_ns,
                on_progress=follow,
            )  # fmt: skip
        _drain(ledger, carer, streams, start_ns, service)
        return ledger, carer, start_ns, report


class _Life:
    """A life that can be played once, and remembers how long it was."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self.n_samples = 0

    def __iter__(self) -> Iterator[Recording]:
        for recording in self._live():
            self.n_samples += len(recording.block)
            yield recording


@contextmanager
def _listening(broker: EmbeddedBroker, ledger: Ledger, screen: Screen, speed: float) -> Iterator[Carer]:
    """A connection that writes what the service publishes into the ledger, and over which the carer acts."""

    def receive(message: Received) -> None:
        _, device_id, kind = message.topic.split("/")
        if message.is_retained or device_id not in ledger.lines:
            return
        content = json.loads(message.payload)
        if kind == "score":
            ledger.add_score(device_id, content["t_ns"], content["score"], content["threshold"])
            return
        carer.hear(device_id, content, time.monotonic())
        if ledger.add_event(device_id, content["t_ns"], content["event_type"], content["alert_id"]):
            line = ledger.lines[device_id]
            screen.alert(device_id, line.activity, line.is_falling)

    link = MqttLink(
        MqttOptions(broker.host, broker.port, f"demo-screen-{secrets.token_hex(4)}"),
        on_message=receive,
        subscriptions=[Subscription(f"{PREFIX}/+/event", 1), Subscription(f"{PREFIX}/+/score", 0)],
    )
    carer = Carer(partial(link.publish, qos=1, is_retained=False), Topics(PREFIX), speed=speed)
    link.start()
    try:
        yield carer
    finally:
        link.stop()


def _wait_until_ready(service: Child) -> str:
    """What stands after "ready:"."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while (ready := re.search(r"^ready: (.*)\n", service.log_tail(50) + "\n", re.MULTILINE)) is None:
        _check_running(service)
        if time.monotonic() > deadline:
            raise _failed(f"be ready within {READY_TIMEOUT_S:g} s", service)
        time.sleep(0.05)
    return ready[1]


def _drain(ledger: Ledger, carer: Carer, streams: Mapping[str, _Life], start_ns: int, service: Child) -> None:
    """Waits until each last whole window was scored, or had no verdict; gives up where nothing comes any more."""
    ends = {name: start_ns + round((life.n_samples / RATE_HZ - WINDOW_S) * NS_PER_S) for name, life in streams.items()}
    n_seen, quiet_since_s = -1, time.monotonic()
    while any(ledger.lines[name].t_scored_ns < end_ns for name, end_ns in ends.items()):
        _check_running(service)
        carer.act(time.monotonic())
        n_scored = sum(line.n_windows for line in ledger.lines.values())
        if n_scored != n_seen:
            n_seen, quiet_since_s = n_scored, time.monotonic()
        quiet_s, untold_ns = time.monotonic() - quiet_since_s, round(UNTOLD_S * NS_PER_S)
        if quiet_s > DRAIN_QUIET_S and all(ledger.lines[name].t_scored_ns > ends[name] - untold_ns for name in ends):
            break
        if quiet_s > DRAIN_TIMEOUT_S:
            raise _failed("score every wearer's stream to its end", service)
        time.sleep(0.05)
    time.sleep(0.3)  # events go out before their scores, but on the way here QoS 1 may come after QoS 0


def _check_running(service: Child) -> None:
    if service.exit_code() is not None:
        raise _failed("run until the end", service)


def _check_end(service: Child, ledger: Ledger) -> None:
    """The service must have scored something and must end in order."""
    if not any(line.n_windows for line in ledger.lines.values()):
        raise _failed("score windows", service)
    if service.stop() != 0:
        raise _failed("end in order on SIGTERM", service)


def _failed(what: str, service: Child) -> ServiceError:
    code = service.exit_code()
    state = "one that runs" if code is None else f"exit code {code}"
    said = service.log_tail(3) or "it printed nothing"
    return ServiceError(
        f"demo: {service.argv[3]} service", what, f"{state}: {said}", "Run it again with another --broker"
    )
