"""What the trainer tells of a model, in its report and in the model file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_occ.artifacts import load_model, save_model
from stream_occ.training import train
from stream_occ.training.report import render_report, write_report
from tests.unit.training_recordings import Source, config, people, recording


def test_spread_of_the_tuning_is_told() -> None:
    """theta, J and K of the fitted members stand in the summary, the model file and the report."""
    result = train([Source(people())], config(detector={"name": "11NN(theta)-RS(50)", "params": {"n_estimators": 3}}))
    tuning = result.summary["tuning"]
    thetas = result.model.scorer.arrays()["theta"]
    assert tuning["theta"] == {"min": min(thetas), "median": np.median(thetas), "max": max(thetas)}
    assert (tuning["n_neighbors"], tuning["k_neighbors"]) == ({"1": 3}, {"1": 3})
    assert tuning["n_noise"]["min"] >= 5
    assert result.model.metadata["training"]["tuning"] == tuning
    page = render_report(result)
    assert "Fitted theta" in page
    assert f"max: {max(thetas):.6g}" in page


def test_file_holds_no_names_of_people_and_no_paths(tmp_path: Path) -> None:
    """A model may be handed on: who was recorded stays with the trainer."""
    everyone = [recording(f"Erika Mustermann {i}", activity) for i in range(3) for activity in ("sit", "walk")]
    settings = config(
        people=tuple(f"Erika Mustermann {i}" for i in range(3)),
        data=({"dataset": "csv", "path": "/home/erika"},),
    )
    result = train([Source(everyone)], settings)
    save_model(result.model, tmp_path / "m.occ", self_test_X=result.self_test_X)
    assert b"rika" not in (tmp_path / "m.occ").read_bytes()
    metadata = load_model(tmp_path / "m.occ").metadata
    assert metadata["training"]["n_people"] == 3
    assert metadata["data_sha256"] == result.summary["data_sha256"]


def test_report_is_one_file_without_outside_assets(tmp_path: Path) -> None:
    """Nothing is fetched when it is opened; names out of data are text, in the page and in the plots."""
    nasty = [recording(str(i), "<script>alert(1)</script> $\\frac$ 行走") for i in range(4)]
    result = train([Source(nasty)], config())
    write_report(result, tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert page.count('src="data:image/png;base64,') == page.count("<img ") == 4
    assert result.model.model_id in page


def test_report_makes_no_claim_about_falls() -> None:
    """The words of detection are not the trainer's to use."""
    page = render_report(train([Source(people())], config()))
    assert "They say nothing about falls" in page
    for word in ("sensitivity", "accuracy", "detects falls", "detection rate"):
        assert word not in page.lower()
