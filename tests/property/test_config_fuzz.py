"""Configurations from anywhere: a Config, or problems of one line each, and never another exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_occ.cli import run
from stream_occ.config import Config, check_config
from stream_occ.config.yaml_lines import parse_yaml
from stream_occ.errors import ConfigError

ANYWHERE = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
SECTIONS = {name: [*getattr(info.annotation, "model_fields", {})] for name, info in Config.model_fields.items()}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(sorted({key for inner in SECTIONS.values() for key in inner} | set(SECTIONS))) | st.text(
    max_size=5
)
entries = st.fixed_dictionaries(
    {"pattern": st.sampled_from(["a/{device}", "{device}/#", "a", "#", "$share/x/{device}"]) | values},
    optional={"codec": st.sampled_from(["json", "csv", "xml", "../json"]) | values, "profile": values, "qos": values},
)
sections = {
    name: st.dictionaries(st.sampled_from(inner), values) if inner else values
    for name, inner in SECTIONS.items()
    if name != "inputs"
}
documents = st.fixed_dictionaries({"inputs": st.lists(entries, max_size=3) | values}, optional=sections)
RUNS_CODE = (
    "!!python/object/apply:os.system ['touch {mark}']",
    "!!python/name:os.system",
    "!!python/object/new:subprocess.Popen [['touch', '{mark}']]",
    "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch {mark}']",
    "${{touch {mark}}}",
    "$(touch {mark})",
    "`touch {mark}`",
)


def checked(folder: Path, text: str, **environment: str) -> None:
    path = folder / "c.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    config, problems = check_config(path, environment)
    assert (config is None) == bool(problems)
    assert not any("\n" in str(problem) for problem in problems)


@ANYWHERE
@given(document=documents | values)
def test_any_document_is_a_configuration_or_problems(tmp_path: Path, document: Any) -> None:
    """Values of every kind under every key, known and unknown."""
    checked(tmp_path, yaml.safe_dump(document, allow_unicode=True))


@ANYWHERE
@given(
    key=keys,
    value=st.text(alphabet=st.characters(exclude_characters="\0"), max_size=20),
    section=st.sampled_from(sorted(SECTIONS)),
)
def test_any_variable_is_a_value_or_a_problem(tmp_path: Path, section: str, key: str, value: str) -> None:
    """Names and values of the environment come from outside too."""
    checked(tmp_path, "inputs: [{pattern: 'a/{device}'}]\n", **{f"STREAM_OCC__{section.upper()}__{key.upper()}": value})


@ANYWHERE
@given(text=st.text(max_size=200) | st.text(alphabet="[]{}:,-&*!|>?#'\"%@` \nabc01", max_size=60))
def test_any_text_is_plain_data_or_one_error(text: str) -> None:
    """Anchors, tags, blocks and what is no YAML at all."""
    try:
        parse_yaml(text, "name")
    except ConfigError as error:
        message = str(error)
        assert "\n" not in message


@pytest.mark.parametrize("value", RUNS_CODE)
@pytest.mark.parametrize("place", ["model: {}\n", "mqtt:\n  host: {}\n", "events: {}\n", "{}: 1\n", "--- {}\n"])
def test_no_configuration_runs_code(value: str, place: str, tmp_path: Path) -> None:
    """Tags of Python, a shell's and a template's ways to call; for detect and for training."""
    mark = tmp_path / "mark"
    text = "inputs: [{pattern: 'a/{device}'}]\n" + place.replace("{}", value.replace("{mark}", str(mark)))
    path = tmp_path / "c.yaml"
    path.write_text(text)
    check_config(path, {"STREAM_OCC__MODEL": value, "STREAM_OCC__LIMITS__ALLOWED_DEVICES": value})
    run(["config", "show", str(path)])
    run(["train", "--config", str(path), "--out", str(tmp_path / "m.occ")])
    assert not mark.exists()
