"""What a configuration may hold, and what its errors say."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from stream_occ.cli import run
from stream_occ.codecs import codec_names, load_codec
from stream_occ.config import Config, adjusted_config, check_config, load_config
from stream_occ.config.inputs import ProfileConfig
from stream_occ.config.yaml_lines import MAX_BYTES, parse_yaml
from stream_occ.errors import ConfigError
from stream_occ.samples import DeviceProfile

REPO = Path(__file__).resolve().parents[2]
NOT_OURS = {"train.yaml", "home-assistant.yaml"}  # of another command, and of Home Assistant
INPUTS = "inputs:\n  - pattern: wearables/{device}/imu\n"


def write(folder: Path, text: str, name: str = "ward.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(folder: Path, text: str, **environment: str) -> list[str]:
    path = write(folder, text)
    return [str(problem).replace(f"{folder}/", "") for problem in check_config(path, environment)[1]]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (REPO / "configs").glob("*.yaml") if path.name not in NOT_OURS)
)
def test_every_file_in_configs_is_valid(name: str) -> None:
    """What the repository offers can be used as it is."""
    assert check_config(REPO / "configs" / name, {})[1] == []


def test_edge_yaml_lists_every_key_with_its_default() -> None:
    """configs/edge.yaml is complete, and where it says default it is the default."""
    import yaml

    given = yaml.safe_load((REPO / "configs" / "edge.yaml").read_text())
    defaults = Config(inputs=({"pattern": "a/{device}"},)).model_dump(mode="json")  # type: ignore[arg-type]
    given["inputs"] = defaults["inputs"] = None
    assert given == defaults


def test_edge_yaml_names_every_codec() -> None:
    """The choices beside `codec` are the codecs that there are."""
    [line] = [
        line for line in (REPO / "configs" / "edge.yaml").read_text().splitlines() if line.startswith("    codec:")
    ]
    choices = line.partition("#")[2].partition(". default")[0]
    assert sorted(choices.replace(" ", "").split("|")) == sorted(codec_names())


@pytest.mark.parametrize("name", ["declared", "si", "g-deg", "mpu6050"])
def test_every_profile_lists_every_key_and_the_plain_one_its_defaults(name: str) -> None:
    """What says default is the default; `declared`, which an input has by itself, says nothing of the device."""
    import yaml

    text = (REPO / "configs" / "profiles" / f"{name}.yaml").read_text()
    given, defaults = yaml.safe_load(text), ProfileConfig().model_dump(mode="json")
    assert given.keys() == defaults.keys()
    told = {key: yaml.safe_load(found) for key, found in re.findall(r"(?m)^(\w+): .*\. default (.*)$", text)}
    assert told == defaults
    if name == "declared":
        assert given == defaults
    assert "not yet" not in text


def test_input_without_a_profile_says_nothing_of_its_device(tmp_path: Path) -> None:
    """So a codec that needs to be told something, as phyphox of gravity, is not told it by default."""
    [entry] = load_config(write(tmp_path, INPUTS), {}).inputs
    assert entry.device_profile == DeviceProfile()


def test_replay_names_the_codecs_that_can_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """All that have `encode`, and no other."""
    assert run(["replay", "--synthetic", "1", "--codec", "witmotion"]) == 2
    named = capsys.readouterr().err.partition("Replay as ")[2].strip().rstrip(".").split(", ")
    assert named == sorted(name for name in codec_names() if hasattr(load_codec(name), "encode"))


def test_every_line_of_edge_yaml_says_unit_or_choice_and_default() -> None:
    """Each key but those of inputs' examples and section heads has a comment that ends with its default."""
    lines = (REPO / "configs" / "edge.yaml").read_text().splitlines()
    keys = [line for line in lines if ":" in line and not line.lstrip().startswith("#")]
    without = [line for line in keys if "default" not in line and line.split("#")[0].strip()[-1] != ":"]
    assert [line.split(":")[0].strip() for line in without] == ["- pattern"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mqtt:\n  prot: 1\n" + INPUTS,
            "ward.yaml:2: mqtt.prot: must be a known key; got 'prot'. The nearest key is mqtt.port.",
        ),
        (
            INPUTS + "port: 1884\n",
            "ward.yaml:3: port: must be a known key; got 'port'. The nearest key is mqtt.port.",
        ),
        (
            "mqtt:\n  port: 99999\n" + INPUTS,
            "ward.yaml:2: mqtt.port: must be less than or equal to 65535; got 99999. Correct the value.",
        ),
        (
            "events: {k: 5, n: 3}\n" + INPUTS,
            "ward.yaml:1: events: must have k <= n; got these keys. Lower k or raise n.",
        ),
        (
            "inputs:\n  - pattern: wearables/imu\n",
            "ward.yaml:2: inputs[0].pattern: must have {device} as exactly one level; got 'wearables/imu'. "
            "Write for example wearables/{device}/imu.",
        ),
        (
            "inputs:\n  - pattern: a/{device}\n    codec: xml\n",
            f"ward.yaml:3: inputs[0].codec: must be one of {', '.join(codec_names())}; "
            "got 'xml'. Name a codec of this list.",
        ),
        (
            "inputs:\n  - pattern: stream_occ/{device}/imu\n",
            "ward.yaml:1: must have inputs outside of its own topics, stream_occ/; got these keys. "
            "Change the pattern or mqtt.prefix.",
        ),
        (
            'mqtt:\n  instance: ".."\n' + INPUTS,
            "ward.yaml:2: mqtt.instance: must match pattern '^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$'; got '..'. "
            "Correct the value.",
        ),
        ("mqtt: {}\n", "ward.yaml:1: inputs: must be given; got nothing. Add the key."),
        (
            INPUTS + "stream:\n  gap_s: .nan\n",
            "ward.yaml:4: must hold finite numbers; got .nan. Give a number.",
        ),
        (
            INPUTS + "log:\n  level: info\n  level: debug\n",
            "ward.yaml:5: must have 'level' once in its section; got it again after line 4. Remove one.",
        ),
        (
            INPUTS + "model: !!python/name:os.system\n",
            "ward.yaml:3: must hold plain values; got the tag tag:yaml.org,2002:python/name:os.system. "
            "Remove the tag, or quote the value.",
        ),
        (
            "inputs:\n  - pattern: a/{device}\n    profile:\n      axes: [x, x, z]\n",
            "ward.yaml:4: inputs[0].profile.axes: must name x, y and z once each, with or without -; got a list of 3. "
            "Correct the axes.",
        ),
    ],
)
def test_error_says_file_line_key_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    """Each mistake is one line that leads to the place and says what to do."""
    assert problems_of(tmp_path, text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('  password_file: "a\\0b"\n', "ward.yaml:5: mqtt.password_file: must be text without NUL"),
        ('  host: "\\ud800"\n', "ward.yaml:5: mqtt.host: must be text without NUL or half characters; got such a one."),
        ("  host: a\x01\n", "ward.yaml:5: must be text without control characters; got the character '\\x01'."),
        ("  host: !!python/object/apply:os.system [id]\n", "ward.yaml:5: must hold plain values; got the tag"),
        ("stream: {gap_s: 86400}\n", "ward.yaml:5: stream.gap_s: must be less than or equal to 1"),
    ],
)
def test_what_no_value_can_be_is_named_and_gives_no_secret_away(tmp_path: Path, text: str, expected: str) -> None:
    """Half a surrogate made the JSON parser quote the start of the file, with the password in it."""
    [problem] = problems_of(tmp_path, f"{INPUTS}mqtt:\n  password: rosebud\n{text}")
    assert problem.startswith(expected)
    assert "rosebud" not in problem


def test_bytes_that_are_no_text_in_a_variable_are_named_by_it(tmp_path: Path) -> None:
    """As Python hands over what is not UTF-8 in the environment: half a surrogate."""
    [problem] = problems_of(tmp_path, INPUTS, STREAM_OCC__MQTT__PASSWORD="\udcffrosebud")
    expected = "environment STREAM_OCC__MQTT__PASSWORD: mqtt.password: must be text without NUL or half characters"
    assert problem.startswith(expected)
    assert "rosebud" not in problem


def test_shared_subscription_is_no_pattern(tmp_path: Path) -> None:
    """Its messages come on topics without $share and its group, so that no message would match."""
    [problem] = problems_of(tmp_path, INPUTS.replace("wearables", "$share/ward/wearables"))
    assert "shared subscription" in problem


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """check finds every mistake of the file and of the environment in one run; load names one and counts the rest."""
    text = "mqtt:\n  prot: 1\n  port: no\n" + INPUTS
    found = problems_of(tmp_path, text, STREAM_OCC__FOO="1")
    assert len(found) == 3
    with pytest.raises(ConfigError, match=r"2 more: stream-occ config check"):
        load_config(tmp_path / "ward.yaml", {"STREAM_OCC__FOO": "1"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("STREAM_OCC__MQTT__PROT", "1", "environment STREAM_OCC__MQTT__PROT: must name a known key; got 'mqtt.prot'"),
        ("STREAM_OCC__MQTT", "1", "environment STREAM_OCC__MQTT: must name a key; got the section mqtt"),
        ("STREAM_OCC__MQTT__PORT", "x", "environment STREAM_OCC__MQTT__PORT: mqtt.port: must be a valid integer"),
    ],
)
def test_environment_is_checked_as_the_file_is(tmp_path: Path, name: str, value: str, expected: str) -> None:
    """An unknown variable or a wrong value is refused by the variable's name."""
    [problem] = problems_of(tmp_path, INPUTS, **{name: value})
    assert problem.startswith(expected)


def test_environment_wins_over_the_file_and_keeps_texts_as_they_are(tmp_path: Path) -> None:
    """A number becomes a number, a list a list, and a user name of digits stays a text."""
    path = write(tmp_path, "mqtt:\n  host: a\n" + INPUTS)
    config = load_config(
        path,
        {
            "STREAM_OCC__MQTT__HOST": "b",
            "STREAM_OCC__MQTT__PORT": "1884",
            "STREAM_OCC__MQTT__USERNAME": "007",
            "STREAM_OCC__LIMITS__ALLOWED_DEVICES": "[w1, w2]",
            "UNRELATED": "x",
        },
    )
    assert (config.mqtt.host, config.mqtt.port, config.mqtt.username) == ("b", 1884, "007")
    assert config.limits.allowed_devices == ("w1", "w2")


def test_secrets_come_from_file_or_environment_and_are_never_shown(tmp_path: Path) -> None:
    """Neither the effective configuration, nor its repr, nor an error about it holds the password."""
    (tmp_path / "secret").write_text("hunter2\n")
    path = write(tmp_path, "mqtt:\n  password_file: secret\n" + INPUTS)
    from_file = load_config(path, {})
    assert from_file.resolved_password is not None
    assert from_file.resolved_password.get_secret_value() == "hunter2"
    from_environment = load_config(path, {"STREAM_OCC__MQTT__PASSWORD": "hunter3"})
    assert from_environment.resolved_password is not None
    assert from_environment.resolved_password.get_secret_value() == "hunter3"
    for config in (from_file, from_environment):
        assert "hunter" not in f"{config.shown()} {config!r}"
    assert from_environment.shown()["mqtt"]["password"] == "***"
    for text in ("mqtt:\n  password: [hunter2]\n", "mqtt:\n  pasword: hunter2\n", "mqtt:\n  password: 5555\n"):
        [problem] = problems_of(tmp_path, text + INPUTS)
        assert "hunter2" not in problem
        assert "5555" not in problem


def test_command_key_comes_from_file_or_environment_and_is_never_shown(tmp_path: Path) -> None:
    """As the password; the environment wins over the file, a short key is refused, and so are two."""
    (tmp_path / "key").write_text("a key of twenty five signs\n")
    path = write(tmp_path, "command_key_file: key\n" + INPUTS)
    assert load_config(path, {}).resolved_command_key == b"a key of twenty five signs"
    config = load_config(path, {"STREAM_OCC__COMMAND_KEY": "another key of them"})
    assert config.resolved_command_key == b"another key of them"
    assert "another key" not in repr(config) + str(config.shown())
    assert config.shown()["command_key"] == "***"
    [problem] = problems_of(tmp_path, INPUTS, STREAM_OCC__COMMAND_KEY="too short")
    assert "command_key: must be at least 16 characters long; got less." in problem
    [problem] = problems_of(tmp_path, "command_key: [rosebud]\n" + INPUTS)
    assert "rosebud" not in problem
    [problem] = problems_of(tmp_path, "command_key: sixteen characters\ncommand_key_file: key\n" + INPUTS)
    assert "command_key or command_key_file, not both" in problem


def test_files_of_tls_without_tls_are_refused(tmp_path: Path) -> None:
    """Whoever names an authority believes to be encrypted."""
    (tmp_path / "ca.pem").write_text("")
    [problem] = problems_of(tmp_path, "mqtt: {tls: {ca_file: ca.pem}}\n" + INPUTS)
    assert "mqtt.tls: must have enabled: true beside files" in problem


def test_password_and_password_file_together_are_refused(tmp_path: Path) -> None:
    """Which of the two holds must not be a guess."""
    (tmp_path / "secret").write_text("x")
    [problem] = problems_of(tmp_path, "mqtt: {password: y, password_file: secret}\n" + INPUTS)
    assert "password or password_file, not both" in problem


@pytest.mark.parametrize(("given", "shown"), [("", "."), ("/", "/")])
def test_state_file_without_a_name_is_refused(tmp_path: Path, given: str, shown: str) -> None:
    """It ended `detect` with an unexpected error and exit code 1, which a supervisor tries again for ever."""
    [problem] = problems_of(tmp_path, INPUTS, STREAM_OCC__STATE__PATH=given)
    expected = f"state.path: must name a file; got {shown}. Leave it out for the default."
    assert problem == f"environment STREAM_OCC__STATE__PATH: {expected}"


def test_missing_secret_file_is_named(tmp_path: Path) -> None:
    """The line of the key is given."""
    [problem] = problems_of(tmp_path, "mqtt:\n  password_file: none\n" + INPUTS)
    assert problem.startswith("ward.yaml:2: mqtt.password_file: must be a readable text file")


def test_profile_is_found_by_name_beside_the_configuration_first(tmp_path: Path) -> None:
    """profiles/NAME.yaml of the configuration's folder wins over those that come with the package."""
    (tmp_path / "profiles").mkdir()
    write(tmp_path / "profiles", "acc_unit: mg\n", "si.yaml")
    path = write(
        tmp_path, "inputs:\n  - {pattern: 'a/{device}', profile: si}\n  - {pattern: 'b/{device}', profile: g-deg}\n"
    )
    mine, packaged = load_config(path, {}).inputs
    assert mine.device_profile.acc_unit == "mg"
    assert (packaged.device_profile.acc_unit, packaged.device_profile.gyr_unit) == ("g", "deg/s")


def test_stamps_of_arrival_are_of_no_clock_of_the_device(tmp_path: Path) -> None:
    """They are ours; what to leave out is said."""
    (tmp_path / "profiles").mkdir()
    write(tmp_path / "profiles", "stamps: arrival\nclock: own\n", "mine.yaml")
    [problem] = problems_of(tmp_path, "inputs:\n  - {pattern: 'a/{device}', profile: mine}\n")
    assert "must have clock: utc beside stamps: arrival, which are ours" in problem
    assert "Leave clock or stamps out" in problem


def test_mistake_in_a_profile_is_reported_in_the_profiles_own_file(tmp_path: Path) -> None:
    """File and line are those of profiles/NAME.yaml."""
    (tmp_path / "profiles").mkdir()
    write(tmp_path / "profiles", "gravity: included\nacc_unit: lbs\n", "mine.yaml")
    [problem] = problems_of(tmp_path, "inputs:\n  - {pattern: 'a/{device}', profile: mine}\n")
    assert problem.startswith("profiles/mine.yaml:2: acc_unit: must be 'm/s2', 'g' or 'mg'; got 'lbs'")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a b", "", "é"])
def test_profile_name_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """A name is letters, digits, - and _: no path."""
    [problem] = problems_of(tmp_path, f"inputs:\n  - pattern: a/{{device}}\n    profile: {name!r}\n")
    assert "inputs[0].profile: must be the name of a file" in problem


def test_huge_deep_and_self_containing_files_are_refused(tmp_path: Path) -> None:
    """Size, depth and the values that aliases stand for are bounded."""
    laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for name, earlier in zip("bcdefg", "abcdef", strict=True):
        laughs += f"{name}: &{name} [{', '.join(['*' + earlier] * 10)}]\n"
    for text in ("#" * (MAX_BYTES + 1), "[" * 5000, "a: " + "{b: " * 50 + "1" + "}" * 50, "a: &a [*a]", laughs):
        [problem] = problems_of(tmp_path, text)
        assert problem.startswith("ward.yaml")


def test_relative_paths_are_relative_to_the_files_folder(tmp_path: Path) -> None:
    """A configuration works from whatever folder it is started in."""
    assert load_config(write(tmp_path, "model: m/x.occ\n" + INPUTS), {}).model == tmp_path / "m" / "x.occ"


def test_command_line_wins_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are None change nothing."""
    monkeypatch.setenv("STREAM_OCC__MQTT__HOST", "from-environment")
    path = write(tmp_path, "mqtt: {host: a, port: 1}\n" + INPUTS)
    config = adjusted_config(path, mqtt={"host": "b", "port": None})
    assert (config.mqtt.host, config.mqtt.port) == ("b", 1)


def test_check_command_prints_all_problems_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One problem a line on stderr; a good file exits with 0."""
    assert run(["config", "check", str(write(tmp_path, "mqtt: {prot: 1, prt: 2}\n" + INPUTS))]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert run(["config", "check", str(write(tmp_path, INPUTS))]) == 0
    assert run(["config", "check", str(tmp_path / "absent.yaml")]) == 2


@pytest.mark.parametrize("name", ["train.yaml", "profiles/si.yaml"])
def test_file_of_another_kind_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A training configuration is not told key by key that it is none of the detector's."""
    assert run(["config", "check", str(REPO / "configs" / name)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{name}:1: must hold the sections of a detector's configuration; got " in line
    assert "stream-occ train --config" in line


def test_dash_reads_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are counted there too, and relative paths are those of the working folder."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(("model: m.occ\n" + INPUTS).encode())))
    assert run(["config", "show", "-"]) == 0
    assert "\nmodel: m.occ\n" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((INPUTS + "port: 1\n").encode())))
    assert run(["config", "check", "-"]) == 2
    assert capsys.readouterr().err.startswith("-:3: port: must be a known key")


def test_show_command_masks_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effective configuration with *** in place of the password."""
    monkeypatch.setenv("STREAM_OCC__MQTT__PASSWORD", "hunter2")
    assert run(["config", "show", str(write(tmp_path, INPUTS))]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert "password: '***'" in shown


def test_numbers_with_an_exponent_need_no_point() -> None:
    """1e-3 is a number, as in YAML 1.2 and everywhere else; a text that only looks so stays a text."""
    assert parse_yaml("[1e-3, 2E5, -1.5e+2, e5, 1e, x1e3]", "f").data == [0.001, 200000.0, -150.0, "e5", "1e", "x1e3"]


@pytest.mark.parametrize(
    "text", ["1:30", "-1:30", "1:30.5", "010", "-017", "0x10", "0b11", "1_000", "1_0.5", "00", "01.5"]
)
def test_number_that_yaml_1_1_reads_in_its_own_way_is_refused(text: str) -> None:
    """PyYAML reads 1:30 as 90 and 010 as 8; quoted, or 0o17, which it takes for a text, it is what stands there."""
    with pytest.raises(
        ConfigError, match=rf"^f:2: must hold numbers in decimal; got {re.escape(text)}\. Write it in dec"
    ):
        parse_yaml(f"mqtt:\n  port: {text}\n", "f")
    assert parse_yaml(f"['{text}', 0o17]", "f").data == [text, "0o17"]


def test_decimal_numbers_are_taken_as_they_stand() -> None:
    """With signs, without a digit before or after the point."""
    assert parse_yaml("[0, -7, +7, 1883, 0.5, .5, 5., 0.0, 1.5e-3, 1E+3]", "f").data == [
        *(0, -7, 7, 1883),
        *(0.5, 0.5, 5.0, 0.0, 0.0015, 1000.0),
    ]


def test_mistake_of_the_command_line_is_not_the_files(tmp_path: Path) -> None:
    """Named by where it was given, whatever the file has at that key."""
    path = tmp_path / "edge.yaml"
    path.write_text("inputs: [{pattern: 'a/{device}'}]\nshard: 1of2\nmqtt: {port: 1883}\n")
    for changes, where in (({"shard": "3of2"}, "shard"), ({"mqtt": {"port": 0}}, "mqtt.port")):
        with pytest.raises(ConfigError) as caught:
            adjusted_config(path, **changes)
        assert str(caught.value).startswith(f"command line: {where}: must be ")
    path.write_text("inputs: [{pattern: 'a/{device}'}]\nshard: 3of2\n")
    with pytest.raises(ConfigError) as caught:
        adjusted_config(path, mqtt={"port": 1884})
    assert str(caught.value).startswith(f"{path}:2: shard: ")
