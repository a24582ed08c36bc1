"""The dashboard as people meet it: a real broker, the real command, a real browser."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_occ.dashboard.access import hash_password
from stream_occ.messages import instant
from tests.integration.broker import MOSQUITTO, Broker, free_port
from tests.integration.dashboard import Dashboard, chromium
from tests.integration.detector import Detector, Watcher, wait_until
from tests.integration.page_states import NAMES, PHONE, WIDE, each_state, hold, send_state, tell
from tests.service_model import payload, tumbling, walking
from tests.unit.dashboard_messages import counters

pytestmark = [pytest.mark.broker, pytest.mark.filterwarnings("default::ResourceWarning")]

WITHIN_MS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh profile's page, which must not fail, nor ask for anything from elsewhere."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, locale="en-GB", timezone_id="Europe/Vienna")
    page = context.new_page()
    page.set_default_timeout(WITHIN_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: "//127.0.0.1:" in request.url or wrong.append(request.url))
    yield page
    context.close()
    assert wrong == []


def commands(watcher: Watcher, kind: str, device: str = "w2") -> list[dict[str, Any]]:
    return watcher.contents(f"stream_occ/{device}/set/{kind}")


def violations(page: Any) -> list[str]:
    """What axe-core objects to, of WCAG 2.2 A and AA and of its own best practice."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}: {each['nodes'][0]['failureSummary']}" for each in found]


def test_an_alert_appears_counts_down_is_acknowledged_and_clears(broker: Broker, tmp_path: Path, page: Any) -> None:
    """Open alerts come before wearers; each button sends its command with who pressed it; ids and texts stay texts."""
    with Dashboard(tmp_path, broker.port) as dashboard, Watcher(broker.port) as watcher:
        page.goto(dashboard.url)
        page.wait_for_selector("#no-wearers:visible")
        page.wait_for_selector("#no-alerts:visible")
        watcher.send("stream_occ/bridge/edge/status", b"online", retain=True)
        for device in ("w1", "w2", "w10"):
            watcher.send(f"stream_occ/{device}/availability", b"online", retain=True)
            send_state(watcher, device, faults=["gap"] if device == "w1" else [])
        page.wait_for_selector(".wearer >> nth=2")
        assert page.locator(".wearer h3").all_inner_texts() == ["w1", "w2", "w10"]
        assert "⚠ gap" in page.inner_text(".wearer[data-id=w1]")
        assert "✓ Normal" in page.inner_text(".wearer[data-id=w2]")
        nasty = "<img src=x onerror=document.title='hit'>"
        tell(watcher, "w2", "pending", 2, reasons=["still", nasty])
        card = page.locator(".alert[data-device=w2]")
        card.wait_for()
        assert re.search(r"alarm in 0:\d\d\n", card.inner_text())
        assert nasty in card.inner_text()
        assert page.locator(".alert img").count() == 0
        assert page.title() == "(1) ▲ stream_occ"
        assert page.inner_text("#spoken") == "Alert pending: w2"
        card.get_by_role("button", name="Acknowledge").click()  # nobody has said who it is
        page.wait_for_selector("#name:focus")
        assert commands(watcher, "ack") == []
        page.keyboard.type("anna <b>")
        card.get_by_role("button", name="Acknowledge").focus()
        page.keyboard.press("Enter")
        [ack] = wait_until(lambda: commands(watcher, "ack"), "the command")
        assert (ack["alert_id"], ack["by"]) == ("a1", "anna <b>")
        tell(watcher, "w2", "acknowledged", 3, by="anna <b>", reasons=["ack"])
        page.wait_for_selector(".alert[data-state=acknowledged]")
        assert "Last act by anna <b>" in card.inner_text()
        assert card.get_by_role("button", name="Acknowledge").is_hidden()
        card.get_by_role("button", name="All clear").click()
        assert commands(watcher, "cancel") == []  # asked whether that is meant
        card.get_by_role("button", name="All clear: sure? Press again").click()
        wait_until(lambda: commands(watcher, "cancel"), "the command")
        tell(watcher, "w2", "resolved", 4, by="anna <b>", reasons=["all_clear"])
        page.wait_for_selector("#no-alerts:visible")
        assert page.locator(".alert").count() == 0
        page.get_by_role("button", name="Mute 1 h: w10").click()
        [mute] = wait_until(lambda: commands(watcher, "mute", "w10"), "the command")
        assert (mute["minutes"], mute["by"]) == (60.0, "anna <b>")
        page.click("nav >> text=History")
        page.click("#history-rows a")
        page.wait_for_selector("#alert-title >> text=Alert of w2: Resolved")
        line = page.inner_text("#alert-body ol")
        assert "Acknowledged: acknowledged (last act by anna <b>)" in line
        assert "anna <b> pressed Acknowledge here (broker: taken)" in line
        assert "log_max_dynamic_acc" in page.inner_text("#alert-body table")


def test_other_pages_tell_filters_days_and_services(broker: Broker, tmp_path: Path, page: Any) -> None:
    """History by outcome, trends with false alarms, the system; on a phone nothing sticks out."""
    with Dashboard(tmp_path, broker.port) as dashboard, Watcher(broker.port) as watcher:
        tell(watcher, "w1", "false_alarm", 4, alert_id="a1", by="anna", reasons=["feedback_false_alarm"])
        tell(watcher, "w2", "resolved", 4, alert_id="a2")
        for n, name in enumerate(("pending", "alarm", "acknowledged", "suspected")):
            tell(watcher, f"w{n + 3}", name, 1, alert_id=f"open{n}")
            send_state(watcher, f"w{n + 3}", name)
        send_state(watcher, "w1", faults=["rate_too_low"])
        watcher.send("stream_occ/bridge/edge/status", b"offline", retain=True)
        watcher.send("stream_occ/bridge/edge/counters", counters(1234, started=instant(time.time_ns())), retain=True)
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto(f"{dashboard.url}#history")
        page.wait_for_selector("#history-rows tr >> nth=1")
        page.select_option("select[name=state]", "false_alarm")
        page.click("#filters button")
        wait_until(lambda: page.locator("#history-rows tr").count() == 1, "one row")
        assert "w1" in page.inner_text("#history-rows")
        page.click("nav >> text=Trends")
        page.wait_for_selector("#trends-body tbody tr")
        assert "6 alerts, 1 of them said to be false" in page.inner_text("#trends-body")
        page.click("nav >> text=System")
        page.wait_for_selector("#system-body >> text=1234")
        assert "rate_too_low" in page.inner_text("#system-body")
        page.wait_for_selector(".banner >> text=Service edge is offline: its wearers are not watched.")
        for view in ("now", "history", "trends", "system", "alert/a1"):
            page.goto(f"{dashboard.url}#{view}")
            page.wait_for_timeout(100)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        for scheme, view in (("light", "now"), ("dark", "now"), ("dark", "history"), ("light", "alert/a1")):
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{dashboard.url}#{view}")
            page.wait_for_timeout(100)
            assert violations(page) == []


def test_page_that_waits_for_its_first_answer_says_so(broker: Broker, tmp_path: Path, page: Any) -> None:
    """And neither that nobody is there nor that all is quiet; once answered it says so no more."""
    with Dashboard(tmp_path, broker.port) as dashboard:
        hold(page, "api/stream")
        page.goto(dashboard.url)
        page.wait_for_selector("#now >> text=Loading what the services say")
        assert page.inner_text("#link") == "Loading"
        assert page.locator("#no-alerts:visible, #no-wearers:visible, .banner").count() == 0
        page.unroute_all()
        page.reload()
        page.wait_for_selector("#no-alerts:visible")
        assert page.locator("#now .loading:visible").count() == 0
        hold(page, "api/alerts")
        page.click("nav >> text=History")
        page.wait_for_selector("#history-state >> text=Loading…")


def size(png: bytes) -> dict[str, int]:
    """Of a PNG: what its header says."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return {"width": int.from_bytes(png[16:20], "big"), "height": int.from_bytes(png[20:24], "big")}


@pytest.mark.slow
@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto not found on PATH: install it to run this test")
def test_each_page_in_each_state_can_be_pictured(browser: Any, tmp_path: Path) -> None:
    """Of the window's size, no two alike, with no error of the page's own on the console."""
    pictures: dict[str, bytes] = {}
    wrong: list[str] = []
    for name, page in each_state(browser, tmp_path):
        if not pictures:
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("console", lambda told: told.type == "error" and wrong.append(told.text))
        pictures[name] = page.screenshot()
        assert size(pictures[name]) == (PHONE if name == "now_phone" else WIDE), name
        assert len(page.locator("main").inner_text()) > 20, name
    assert tuple(pictures) == NAMES
    assert len(set(pictures.values())) == len(NAMES)
    assert [text for text in wrong if not text.startswith("Failed to load resource")] == []  # while it was away


def test_people_log_in_and_who_may_look_has_no_buttons(broker: Broker, tmp_path: Path, page: Any) -> None:
    """A wrong password says so; the name of the account goes with the act."""
    people, hashed = tmp_path / "people", hash_password("correct horse")
    people.write_text(f"anna:act:{hashed}\nbob:view:{hashed}\n")
    with Dashboard(tmp_path, broker.port, "--people", str(people)) as dashboard, Watcher(broker.port) as watcher:
        tell(watcher, "w2", "alarm", 3)
        page.goto(dashboard.url)
        for name, password in (("bob", "wrong horse"), ("bob", "correct horse")):
            page.fill("[name=name]", name)
            page.fill("[name=password]", password)
            page.click("#login-form button")
            page.wait_for_selector("#login-problem >> text=wrong" if password[0] == "w" else ".alert")
        assert "bob (may look)" in page.inner_text("header")
        assert page.locator(".alert button:visible").count() == 0
        page.click("#leave")
        page.wait_for_selector("#login:visible")
        assert page.locator(".alert:visible").count() == 0
        page.fill("[name=name]", "anna")
        page.fill("[name=password]", "correct horse")
        page.keyboard.press("Enter")
        page.click(".alert >> text=Acknowledge")
        [ack] = wait_until(lambda: commands(watcher, "ack"), "the command")
        assert ack["by"] == "anna"


@pytest.mark.slow
def test_what_is_not_live_is_never_shown_as_live(tmp_path: Path, page: Any) -> None:
    """No broker, a broker, stale wearers, no broker again, no dashboard."""
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker", free_port())
    dashboard = Dashboard(tmp_path, broker.port)
    with dashboard:
        page.goto(dashboard.url)
        page.wait_for_selector(".banner >> text=no connection to the broker")
        broker.run()
        try:
            page.wait_for_selector(".banner >> text=No service has said that it is there.")
            with Watcher(broker.port) as watcher:
                watcher.send("stream_occ/bridge/edge/status", b"online", retain=True)
                send_state(watcher, "w1")
                page.wait_for_selector(".wearer >> text=✓ Normal")
                wait_until(lambda: page.locator(".banner").count() == 0, "no banner")
                page.wait_for_selector(".wearer >> text=? Stale: not heard of since", timeout=15_000)
                send_state(watcher, "w1")
                page.wait_for_selector(".wearer >> text=/^✓ Normal/")
            broker.stop()
            page.wait_for_selector(".banner >> text=no connection to the broker")
            page.wait_for_selector(".wearer >> text=? Not live. Last known")
        finally:
            broker.stop()
        assert dashboard.stop() == 0
        page.wait_for_selector(".banner >> text=No connection to the dashboard since", timeout=20_000)
        assert page.inner_text("#link") == "✕ Disconnected"


@pytest.mark.slow
def test_a_fall_that_the_service_flags_appears_is_acknowledged_and_clears(
    broker: Broker, model_file: Path, tmp_path: Path, page: Any
) -> None:
    """The real detector behind the real broker; the signals of its window are drawn."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 1.0, "refractory_s": 60.0}
    detector = Detector(tmp_path, broker.port, model_file, events=events, output={"publish_waveform": True})
    with Watcher(broker.port) as watcher, detector, Dashboard(tmp_path, broker.port) as dashboard:
        page.goto(dashboard.url)
        t0_ns = time.time_ns()
        for second in range(5):
            watcher.send("wearables/w1/imu", payload(walking("w1", 50, t0_ns=t0_ns, first=50 * second)))
        page.wait_for_selector(".wearer[data-id=w1] >> text=✓ Normal")
        watcher.send("wearables/w1/imu", payload(tumbling("w1", 100, t0_ns=t0_ns, first=250)))
        page.wait_for_selector(".alert[data-device=w1][data-state=alarm]")
        page.fill("#name", "anna")
        page.click(".alert >> text=Acknowledge")
        page.wait_for_selector(".alert[data-state=acknowledged] >> text=Last act by anna")
        page.click(".alert >> text=All clear")
        page.click(".alert >> text=sure? Press again")
        page.wait_for_selector("#no-alerts:visible")
        page.click("nav >> text=History")
        page.click("#history-rows a")
        page.wait_for_selector(".signals path >> nth=5")
        events_told = [
            json.loads(text)["event_type"] for topic, text, _ in watcher.log if topic == "stream_occ/w1/event"
        ]
        assert events_told[-2:] == ["acknowledged", "resolved"]
