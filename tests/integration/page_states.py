"""Every page of the dashboard in every state, from the running thing: for `scripts/screenshots`, and to be tested."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stream_occ.dashboard.access import hash_password
from stream_occ.messages import instant
from tests.integration.broker import Broker, free_port
from tests.integration.dashboard import Dashboard
from tests.integration.detector import Watcher
from tests.unit.dashboard_messages import counters, event, state

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
NAMES = ("loading", "no_broker", "empty", "now", "now_dark", "now_phone", "history", "alert", "trends", "system",
         "stale", "disconnected", "log_in")  # fmt: skip


def hold(page: Any, path: str) -> None:
    """From now on the page gets no answer from `path`."""
    page.route(f"**/{path}*", lambda _: None)


def send_state(watcher: Watcher, device: str, name: str = "normal", **keys: Any) -> None:
    watcher.send(f"stream_occ/{device}/state", state(name, t_ns=time.time_ns(), **keys), retain=True)


def tell(watcher: Watcher, device: str, name: str, seq: int, **keys: Any) -> None:
    """A change of an alert as the service tells it: the event, then the retained alert."""
    now_ns = time.time_ns()
    watcher.send(f"stream_occ/{device}/event", event(name, seq, t_ns=now_ns, **keys))
    is_open = name in ("pending", "alarm", "acknowledged")
    alert = event(name, seq, t_ns=now_ns, device=device, **keys) if is_open else b""
    watcher.send(f"stream_occ/{device}/alert", alert, retain=True)


def each_state(browser: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    """Name and page of one state after the other, in the order of NAMES."""
    context = browser.new_context(viewport=WIDE, locale="en-GB", timezone_id="Europe/Vienna")
    page = context.new_page()
    (folder / "broker").mkdir(parents=True)
    broker = Broker(folder / "broker", free_port())
    dashboard = Dashboard(folder, broker.port)
    try:
        with dashboard:
            hold(page, "api/stream")
            page.goto(dashboard.url)
            page.wait_for_selector("#now .loading:visible")
            yield "loading", page
            page.unroute_all()
            page.reload()
            page.wait_for_selector(".banner >> text=no connection to the broker")
            yield "no_broker", page
            broker.run()
            page.wait_for_selector(".banner >> text=No service has said")
            page.wait_for_selector("#no-wearers:visible")
            yield "empty", page
            with Watcher(broker.port) as watcher:
                yield from _with_wearers(page, dashboard.url, watcher)
            page.wait_for_selector(".wearer >> text=? Stale: not heard of since")
            yield "stale", page
        page.wait_for_selector(".banner >> text=No connection to the dashboard since")
        yield "disconnected", page
        people = folder / "people"
        people.write_text(f"anna:act:{hash_password('correct horse')}\n")
        with Dashboard(folder, broker.port, "--people", str(people)) as dashboard:
            page.goto(dashboard.url)
            page.wait_for_selector("#login:visible")
            yield "log_in", page
    finally:
        broker.stop()
        context.close()


def _with_wearers(page: Any, url: str, watcher: Watcher) -> Iterator[tuple[str, Any]]:
    tell(watcher, "w7", "false_alarm", 4, alert_id="past", by="anna", reasons=["feedback_false_alarm"])
    alerts = {"w1": "pending", "w2": "alarm", "w3": "acknowledged"}
    for n, (device, name) in enumerate(alerts.items()):
        tell(watcher, device, name, n + 1, alert_id=f"open{n}", by="anna" if name == "acknowledged" else None)
    watcher.send("stream_occ/bridge/edge/status", b"online", retain=True)
    watcher.send("stream_occ/bridge/edge/counters", counters(1234, started=instant(time.time_ns())), retain=True)
    for device in ("w1", "w2", "w3", "w4", "w5", "w6", "w7"):
        watcher.send(f"stream_occ/{device}/availability", b"online", retain=True)
        send_state(watcher, device, alerts.get(device, "normal"), faults=["rate_too_low"] if device == "w5" else [])
    page.wait_for_selector(".alert >> nth=2")
    page.wait_for_selector(".wearer >> nth=6")
    yield "now", page
    page.emulate_media(color_scheme="dark")
    yield "now_dark", page
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    yield "now_phone", page
    page.set_viewport_size(WIDE)
    for name, view, shown in (
        ("history", "history", "#history-rows tr >> nth=3"),
        ("alert", "alert/past", "#alert-body table"),
        ("trends", "trends", "#trends-body tbody tr"),
        ("system", "system", "#system-body >> text=1234"),
    ):
        page.goto(f"{url}#{view}")
        page.wait_for_selector(shown)
        yield name, page
    page.goto(f"{url}#now")
