"""What the dashboard costs: python benchmarks/dashboard.py --wearers 1000 --json out.json

A mosquitto of its own, `stream-occ dashboard` and a headless Chromium on its page, all on this machine; each wearer has
a state message a second. Told are processor time of server and browser (all its processes) in percent of one core,
resident memory of the server, how many updates a second there really were, how old the last update of a tile was on the
page, and how long an alert took from the broker to the page. Needs mosquitto and chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.integration.broker import Broker
from tests.integration.dashboard import Dashboard, chromium
from tests.unit.dashboard_messages import event, state

WARM_UP_S = 8.0


def cpu_s(processes: list[psutil.Process]) -> float:
    """Processor seconds of processes that still run."""
    total = 0.0
    for each in processes:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def publish_for(client: Any, n_wearers: int, seconds: float) -> float:
    """A state of each wearer a second, spread over it; returns how many went out a second."""
    began_s, n = time.monotonic(), 0
    slices = 20
    while (elapsed_s := time.monotonic() - began_s) < seconds:
        i = n % n_wearers
        client.publish(f"stream_occ/w{i}/state", state(t_ns=time.time_ns(), score=0.5 + (n * 7919 % 100) / 50), 1, True)
        n += 1
        if n % max(n_wearers // slices, 1) == 0:
            time.sleep(max(0.0, n / n_wearers - elapsed_s))
    return n / (time.monotonic() - began_s)


def alert_delay_s(client: Any, page: Any, n: int) -> float:
    """From the publication of an alert to its card."""
    began_s = time.monotonic()
    client.publish("stream_occ/w1/event", event("alarm", 1, alert_id=f"bench{n}", t_ns=time.time_ns()), 1)
    page.wait_for_selector(f"[data-alert=bench{n}]")
    return time.monotonic() - began_s


def main() -> None:
    """Measures once and prints it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wearers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        output = {"state_interval_s": 1.0}
        with (
            Broker.start(folder / "broker") as broker,
            Dashboard(folder, broker.port, output=output) as dashboard,
            chromium() as browser,
        ):
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.max_inflight_messages_set(1000)
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            page = browser.new_page(viewport={"width": 1600, "height": 1000})
            page.goto(dashboard.url)
            publish_for(client, options.wearers, WARM_UP_S)
            server = psutil.Process(dashboard.pid)
            browsers = [
                each for each in psutil.Process().children(recursive=True) if "chrom" in each.name() and each != server
            ]
            before_s, began_s = (cpu_s([server]), cpu_s(browsers)), time.monotonic()
            rate = publish_for(client, options.wearers, options.seconds)
            took_s = time.monotonic() - began_s
            after_s = (cpu_s([server]), cpu_s(browsers))
            age_s = page.evaluate(
                "(Date.now() - Math.max(...[...wearers.values()].map((t) => t.told.heard_ms))) / 1000"
            )
            delays = [alert_delay_s(client, page, n) for n in range(10)]
            found = {
                "wearers": options.wearers,
                "tiles": page.locator(".wearer").count(),
                "updates_per_s": round(rate, 1),
                "server_cpu_percent": round(100 * (after_s[0] - before_s[0]) / took_s, 1),
                "server_mb": round(server.memory_info().rss / 2**20),
                "browser_cpu_percent": round(100 * (after_s[1] - before_s[1]) / took_s, 1),
                "browser_processes": len(browsers),
                "newest_tile_age_s": round(age_s, 2),
                "alert_median_s": round(statistics.median(delays), 3),
                "alert_longest_s": round(max(delays), 3),
            }
            client.disconnect()
            client.loop_stop()
    text = json.dumps(found, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
