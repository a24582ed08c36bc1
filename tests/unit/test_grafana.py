"""configs/grafana-dashboard.json against what /metrics answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from stream_occ.health import HealthServer, Probes
from stream_occ.messages import CountersMessage
from stream_occ.sink_queue import SinkStatus
from stream_occ.vitals import Histogram, Vitals
from tests.integration.broker import free_port

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "configs/grafana-dashboard.json").read_text(encoding="utf-8")
)
TARGETS = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_PROMETHEUS = {"instance"}  # the label that it adds to what it scrapes
WORDS = {"sum", "min", "by", "rate", "increase", "histogram_quantile"}


def _scraped() -> dict[str, set[str]]:
    """Labels of each series that the real endpoint gives, where each kind of it has something to tell."""
    counters = CountersMessage(
        started="2026-03-01T12:00:00.000Z",
        devices=1,
        messages=9,
        windows=4,
        refused={"json": 1},
        dropped={"queue_full": 1},
        queue=0,
        connects=1,
        connects_refused={"Not authorized": 1},
    )
    seconds = Histogram().push(0.02)
    vitals = Vitals(0.0, counters, Counter(), Counter(drift=1), Counter(), seconds, seconds, is_scoring=True)
    sink = SinkStatus("ward", "webhook", "ok", "", 0, 0, {"delivered": 1})
    port = free_port()
    probes = Probes(lambda: None, lambda: {"connected": True}, lambda: None, lambda: vitals, "toy-1", lambda: [sink])
    server = HealthServer("127.0.0.1", port, probes)
    server.start()
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
        server.stop()
    families = text_string_to_metric_families(text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_each_query_reads_a_metric_and_labels_that_are_there() -> None:
    """Names, labels that select, group or stand in a legend: all are scraped, but for what Prometheus adds."""
    scraped = _scraped()
    for target in TARGETS:
        expr = target["expr"]
        (name,) = re.findall(r"(\w+)\{", expr)
        assert name in scraped, expr
        used = set(re.findall(r"(\w+)=~?\"", expr)) | set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        used |= {label.strip() for group in re.findall(r"by \(([^)]*)\)", expr) for label in group.split(",")}
        assert used <= scraped[name] | OF_PROMETHEUS, expr
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)", "", expr)
        assert set(re.findall(r"[a-z_]\w*", bare)) <= WORDS | {name}, expr


def test_source_and_instances_are_chosen_by_variables() -> None:
    """Nothing in it is of one Grafana; the instances are those of a metric that is there."""
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    (name,) = re.findall(r"label_values\((\w+), instance\)", variables["instance"]["query"])
    assert name in _scraped()
    sources = [*DASHBOARD["panels"], *TARGETS, variables["instance"]]
    assert {source["datasource"]["uid"] for source in sources} == {"${datasource}"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
