"""`sinks:` of the configuration: kinds by name, secrets from files and variables, errors with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_occ.cli import run
from stream_occ.config import check_config, load_config
from stream_occ.sinks import sink_kinds
from stream_occ.sinks.email import Settings as EmailSettings
from stream_occ.sinks.file import Settings as FileSettings
from stream_occ.sinks.webhook import Settings as WebhookSettings

REPO = Path(__file__).resolve().parents[2]
INPUTS = "inputs:\n  - pattern: wearables/{device}/imu\n"
WARD = INPUTS + "sinks:\n  ward:\n    kind: webhook\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "ward.yaml"
    path.write_text(text)
    return path


def problems_of(folder: Path, text: str, **environment: str) -> list[str]:
    found = check_config(write(folder, text), environment)[1]
    return [str(problem).replace(f"{folder}/", "") for problem in found]


def test_sinks_are_settings_of_their_kind(tmp_path: Path) -> None:
    """Paths are relative to the configuration's folder."""
    sinks = (
        "  book: {kind: file, path: out/alerts.csv, format: csv}\n"
        "  mail: {kind: email, host: mail.example, sender: a@b.example, recipients: [c@d.example], states: [alarm]}\n"
    )
    config = load_config(write(tmp_path, WARD + "    url: https://ward.example/alerts\n" + sinks), {})
    ward, book, mail = config.sinks.values()
    assert isinstance(ward, WebhookSettings)
    assert isinstance(book, FileSettings)
    assert isinstance(mail, EmailSettings)
    assert book.path == tmp_path / "out" / "alerts.csv"
    assert mail.states == ("alarm",)


def test_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    """The first one in docs/sinks.md, with its secrets in files."""
    example = (REPO / "docs" / "sinks.md").read_text().split("```yaml\n")[1].split("```")[0]
    for name, secret in (("ward.url", "https://a.example/"), ("ward.key", "k" * 16), ("mail.password", "hunter2")):
        (tmp_path / name).write_text(secret)
    assert problems_of(tmp_path, INPUTS + example) == []


def test_secrets_come_from_file_or_environment_and_are_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Addresses hold tokens, so they are secrets too."""
    (tmp_path / "url").write_text("https://ward.example/token-tulip\n")
    path = write(tmp_path, WARD + "    url_file: url\n    key: 0123456789-rosebud\n")
    environment = {"STREAM_OCC__SINKS__WARD__KEY": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    [ward] = load_config(path, environment).sinks.values()
    assert isinstance(ward, WebhookSettings)
    assert ward.url.get_secret_value() == "https://ward.example/token-tulip"
    assert ward.key is not None
    assert ward.key.get_secret_value() == environment["STREAM_OCC__SINKS__WARD__KEY"]
    config = load_config(path, {})
    assert run(["config", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    for text in (repr(config), json.dumps(config.shown()), shown):
        assert "tulip" not in text
        assert "rosebud" not in text
    assert config.shown()["sinks"]["ward"]["url"] == "***"


def test_variable_of_a_sink_is_of_its_keys_type(tmp_path: Path) -> None:
    """Numbers are numbers, texts stay as they are, and a secret wins over its file."""
    path = write(tmp_path, WARD + "    url_file: nowhere\n")
    environment = {"STREAM_OCC__SINKS__WARD__URL": "http://127.0.0.1/", "STREAM_OCC__SINKS__WARD__TIMEOUT_S": "2.5"}
    [ward] = load_config(path, environment).sinks.values()
    assert ward.timeout_s == 2.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "    url: https://a/\n    tmeout_s: 3\n",
            "ward.yaml:7: sinks.ward.tmeout_s: must be a known key; got 'tmeout_s'. The nearest key is timeout_s.",
        ),
        ("    urll: https://a/\n", "ward.yaml:6: sinks.ward.urll: must be a known key"),
        ("    url: ftp://tulip/\n", "ward.yaml:6: sinks.ward.url: must be an address such as https"),
        ("    url: https://a..b/\n", "ward.yaml:6: sinks.ward.url: must be an address such as https"),
        ("    url: https://a/\n    key: tulip\n", "ward.yaml:7: sinks.ward.key: must be at least 16 characters long"),
        ("    url: https://a/\n    url_file: u\n", "sinks.ward.url: must have url or url_file, not both; got both."),
        ("    url_file: nowhere\n", "ward.yaml:6: sinks.ward.url_file: must be a readable text file"),
        ("    url: https://a/\n    timeout_s: 900\n", "ward.yaml:7: sinks.ward.timeout_s: must be less than or equal"),
        ("    url: https://a/\n    states: [alarms]\n", "ward.yaml:7: sinks.ward.states[0]: must be "),
        ("    url: https://a/\n    states: [alarm, alarm]\n", "sinks.ward.states: must name each state once"),
        ("  mail: tulip\n", "ward.yaml:6: sinks.mail.kind: must be one of apprise, email, file, webhook; got no keys."),
    ],
)
def test_mistake_has_its_place_and_shows_no_secret(tmp_path: Path, text: str, expected: str) -> None:
    """One line for one mistake, but for the key that is missing beside a misspelt one."""
    found = problems_of(tmp_path, WARD + text)
    assert any(expected in problem for problem in found), found
    assert not any("tulip" in problem for problem in found)
    assert not any("nothing such" in problem for problem in found)


def test_unknown_kind_has_the_nearest_name(tmp_path: Path) -> None:
    """Kinds are files, found by their names."""
    [problem] = problems_of(tmp_path, INPUTS + "sinks:\n  ward:\n    kind: webhok\n")
    assert problem == (
        "ward.yaml:5: sinks.ward.kind: must be one of apprise, email, file, webhook; got 'webhok'."
        " Did you mean webhook?"
    )
    assert sink_kinds() == ("apprise", "email", "file", "webhook")


def test_name_of_a_sink_can_be_part_of_a_variable(tmp_path: Path) -> None:
    """Small letters, digits, single underscores."""
    for name in ("Ward", "ward-3", "ward__3", "_ward"):
        problems = problems_of(tmp_path, INPUTS + f"sinks:\n  {name}: {{kind: file, path: a}}\n")
        assert len(problems) == 1, name
        assert "sinks" in problems[0]
