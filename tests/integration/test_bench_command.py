"""`stream-occ bench` on little: what it says, what it writes, and what it says where something is missing."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from stream_occ.bench import peers, serving
from stream_occ.bench.parts import features, footprint, ocnn, service
from stream_occ.bench.peers import shared_product
from stream_occ.bench.report import Amount, Found, Ratio, Settings, draw, measure, part_names
from stream_occ.bench.rows import synthetic_rows
from stream_occ.cli import run
from stream_occ.errors import ServiceError
from tests.integration.broker import MOSQUITTO


def test_a_part_gives_json_a_plot_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios say what they are of; those of one part have an axis of their own in the plot."""
    out, plot = tmp_path / "bench.json", tmp_path / "bench.svg"
    assert run(["bench", "decoding", "--quick", "--json", str(out), "--plot", str(plot)]) == 0
    report = json.loads(out.read_text())
    assert set(report) == {"machine", "settings", "parts"}
    assert report["settings"] == {"n_rows": 1000, "dataset": "mobifall", "data": None, "is_quick": True}
    assert report["machine"]["versions"]["numpy"]
    part = report["parts"]["decoding"]
    assert set(part) == {"load_1min", "figures", "ratios", "amounts", "lines", "not_installed"}
    assert {(ratio["task"], ratio["peer"]) for ratio in part["ratios"]} >= {
        ("JSON, 50 samples", "json, numpy"),
        ("JSON, 1 sample", "pydantic, numpy"),
    }
    assert all(ratio["times"] > 0.0 for ratio in part["ratios"])
    assert ET.parse(plot).getroot().tag.endswith("svg")
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "decoding:"
    [barred] = [ratio for ratio in part["ratios"] if ratio["at_least"] is not None]
    assert barred["is_met"] == (barred["times"] >= barred["at_least"] == 3.0)
    end = "(bar: 3)" if barred["is_met"] else "(bar: 3, not met)"
    assert any(line.endswith(f"JSON, 50 samples: json, numpy {end}") for line in told)


def test_json_on_stdout_is_nothing_but_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines for people go to stderr then."""
    assert run(["bench", "decoding", "--quick", "--json", "-"]) == 0
    said = capsys.readouterr()
    assert "decoding" in json.loads(said.out)["parts"]
    assert said.err.startswith("decoding:\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["ocn"],
            "must be one of decoding, features, footprint, krr, ocnn, service, training; got 'ocn'. Did you mean ocnn?",
        ),
        (["krr", "--rows", "5"], "--rows"),
        (["krr", "--plot", "bench.gif"], "must end in .svg, .png, .pdf; got bench.gif"),
        (["krr", "--json", "a.svg", "--plot", "a.svg"], "must be another file than --json"),
        (["ocnn", "--data", "no-such-file.zip"], "no-such-file.zip"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, before anything is measured."""
    monkeypatch.chdir(tmp_path)
    assert run(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_without_mosquitto_its_parts_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone a part fails in one line; among others it is skipped, and they are measured."""
    monkeypatch.setattr(serving, "SEARCH_PATH", str(tmp_path))
    for name in ("service", "footprint"):
        assert run(["bench", name, "--quick"]) == 1
        line = "stream-occ: mosquitto: must be on PATH; got none. Install it (apt-get install mosquitto).\n"
        assert capsys.readouterr().err == line
    out = tmp_path / "bench.json"
    assert run(["bench", "service", "decoding", "--quick", "--json", str(out)]) == 0
    parts = json.loads(out.read_text())["parts"]
    assert parts["service"] == {
        "skipped": "mosquitto: must be on PATH; got none. Install it (apt-get install mosquitto)."
    }
    assert parts["decoding"]["ratios"]
    said = capsys.readouterr()
    assert "service: skipped: mosquitto" in said.out
    assert said.err == "1 part skipped\n"


def test_peers_that_are_not_installed_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no error: what is there is measured."""
    hidden, find = {"tsfel", "tsfresh"}, importlib.util.find_spec
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name in hidden else find(name))
    assert run(["bench", "features", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "  not installed: tsfel, tsfresh"
    assert any("khan31r, one window: per-feature scipy (bar: 50" in line for line in lines)


def test_the_naive_features_are_ours() -> None:
    """What is raced does the same work."""
    windows = features.signals(3)
    ours = features.khan31r.FEATURE_SET.extract(features.batch_of(windows))
    for row, window in zip(ours, windows, strict=True):
        assert features.per_feature(window) == pytest.approx(row, rel=1e-9)


def test_the_plain_product_votes_as_the_exact_engines() -> None:
    """In float32 and unchecked: on these windows all but a few of 100."""
    from stream_occ.bench.ocnn import fitted, ours

    rows = synthetic_rows(500)
    detector = fitted(rows, 5)
    for Z in (rows.normal[:100], rows.fall[:100]):
        assert (shared_product(detector)(Z) == ours(detector)["numpy"](Z)).mean() >= 0.98


def test_quick_ocnn_has_all_kinds_of_windows_and_other_detectors() -> None:
    """Normal, borderline and fall windows, hot and cold; no bars, which are meant for 26,660 rows."""
    found = measure(["ocnn"], Settings(300, is_quick=True), lambda name, found: None)["parts"]["ocnn"]
    entries = found["figures"]["synthetic, 8 dimensions"]
    assert [entry["windows"] for entry in entries["others"]] == ["normal", "borderline", "fall"]
    ways = entries["others"][0]["ways"]
    assert {"sklearn LocalOutlierFactor", "sklearn OneClassSVM", "sklearn IsolationForest"} <= set(ways)
    assert set(ways["sklearn OneClassSVM"]) == {"ms", "ratio", "cold_ms", "cold_ratio"}
    assert all(ratio["at_least"] is None for ratio in found["ratios"])
    assert [set(entry["ways"]) for entry in found["figures"]["by_rows"]] == [{"300"}, {"300"}]
    assert found["amounts"] == []


def test_the_largest_number_of_devices_is_found_by_doubling_and_halving() -> None:
    """Within a tenth of the truth, in few runs; 0 where even the first is too many."""
    asked: list[int] = []

    def is_served(n: int) -> bool:
        asked.append(n)
        return n <= 700

    found = service.largest(is_served)
    assert 700 / 1.1 <= found <= 700
    assert len(asked) <= 10
    assert service.largest(lambda n: False) == 0


def test_a_run_with_a_queue_or_a_loss_is_not_served() -> None:
    """Low delays of the few windows that were decided are no excuse."""
    sound: dict[str, Any] = {
        "sent_to_decision_ms": {"p99": 99.0},
        "share_decided": 1.0,
        "refused": {},
        "dropped": {},
    }
    assert service.served(sound)
    for wrong in ({"sent_to_decision_ms": {"p99": 100.0}}, {"share_decided": 0.9}, {"refused": {"queue_full": 1}}):
        assert not service.served(sound | wrong)
    assert not service.served(sound | {"sent_to_decision_ms": {}})


def test_an_empty_report_can_be_drawn(tmp_path: Path) -> None:
    """As of parts that have no ratios."""
    draw({"parts": {"service": {"ratios": []}}}, tmp_path / "bench.svg")
    assert (tmp_path / "bench.svg").exists()


def test_parts_are_files() -> None:
    """Those of the issue are there; a part that fails alone raises."""
    assert set(part_names()) == {"decoding", "features", "footprint", "krr", "ocnn", "service", "training"}
    assert Ratio("a", "b", 12.345, 3.0).line() == "     12.3 x  a: b (bar: 3)"
    assert Found({}).not_installed == ()


def test_a_bar_is_met_where_it_is_touched() -> None:
    """From either side; where none is meant nothing is said of it."""
    assert [Ratio("a", "b", times, 3.0).is_met for times in (2.99, 3.0)] == [False, True]
    assert [Amount("a", value, "s", at_most=1.5).is_met for value in (1.5, 1.51)] == [True, False]
    assert [Amount("a", value, "devices", at_least=1000).is_met for value in (999, 1000)] == [False, True]
    assert (Ratio("a", "b", 2.0).is_met, Amount("a", 2.0, "s").is_met) == (None, None)
    assert Amount("a", 0.5, "s", at_most=1.5).line() == "a: 0.5 s (bar: at most 1.5)"
    assert Amount("a", 2.0, "s", at_most=1.5).line() == "a: 2 s (bar: at most 1.5, not met)"
    assert Ratio("a", "b", 2.0, 3.0).line().endswith("(bar: 3, not met)")


def test_bars_stand_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth, start, memory and devices as ratios do: the figure, its bar and whether it is met."""
    runs: list[str] = []

    class Ran:
        first_decision_s, rss_mb = 0.4, 90.0

    monkeypatch.setattr(footprint, "run", lambda folder, model, load: runs.append(load.options) or Ran())
    monkeypatch.setattr(footprint, "make_model", lambda path, n_rows: None)
    monkeypatch.setattr(footprint, "mosquitto", lambda: "mosquitto")
    monkeypatch.setattr(footprint, "absent", lambda name: ())
    part = measure(["footprint"], Settings(), lambda name, found: None)["parts"]["footprint"]
    assert [(each["what"], each["value"], each["at_most"], each["is_met"]) for each in part["amounts"]] == [
        ("numpy: start to first decision", 0.4, 1.5, True),
        ("numpy: resident memory", 90.0, 80.0, False),
        ("compiled: start to first decision", 0.4, 1.5, True),
        ("compiled: resident memory", 90.0, 200.0, True),
    ]
    assert len(runs) == 2 * footprint.N_RUNS


def test_growth_with_rows_has_a_bar_at_the_size_it_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """26,660 rows over 1,000, of our engines; 100,000 are measured by the command itself, and told without."""
    asked: list[Any] = []
    times = {"1000": {"ratio": 1.0}, "26660": {"ratio": 9.0}, "100000": {"ratio": 20.0}}

    def by_rows(make: Any, sizes: Any, **options: Any) -> Any:
        asked.append(sizes)
        return [{"windows": "fall", "reference": "numpy", "ways": {}, "growth": {"numpy": times, "ckdtree": times}}]

    monkeypatch.setattr(ocnn, "by_rows", by_rows)
    monkeypatch.setattr(Settings, "rows", lambda settings: [])
    amounts = ocnn.measure(Settings()).amounts
    assert asked == [[1_000, 5_000, 26_660, 100_000]]
    assert [(each.what, each.at_most, each.is_met) for each in amounts] == [
        ("fall, alone, numpy: cost(26660) / cost(1000)", 8.0, False),
        ("fall, alone, numpy: cost(100000) / cost(1000)", None, None),
        ("fall, alone, ckdtree: cost(26660) / cost(1000)", None, None),
        ("fall, alone, ckdtree: cost(100000) / cost(1000)", None, None),
    ]


@pytest.mark.broker
@pytest.mark.slow
def test_service_and_footprint_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Five devices through a real broker, and a start of each engine."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    report = measure(["service", "footprint"], Settings(500, is_quick=True), lambda name, found: None)["parts"]
    [one] = report["service"]["figures"]["states saved"]["runs"]
    assert (one["devices"], one["refused"], one["dropped"]) == (5, {}, {})
    assert one["n_windows"] >= 10  # of 20 to 30: a busy machine may be late
    assert set(one["cpu_shares"]) == {"decode", "decide", "save", "rest of the worker", "other threads: MQTT client"}
    assert report["footprint"]["figures"]["numpy"]["rss_mb"] > 20
    assert report["footprint"]["figures"]["numpy"]["first_decision_s"] > 0


def test_mosquitto_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the part, for whoever calls it from Python."""
    monkeypatch.setattr(serving, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(ServiceError, match="apt-get install mosquitto"):
        service.measure(Settings(is_quick=True))
