"""Data of file, environment and command line on their way to a checked `Config`, and the problems found meanwhile."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from stream_occ.config.inputs import ProfileConfig
from stream_occ.config.keys import dotted, is_text, literals, nearest_key, value_of_variable
from stream_occ.config.models import Config
from stream_occ.config.yaml_lines import Document, KeyPath, load_yaml, parse_yaml
from stream_occ.errors import ConfigError, nearest
from stream_occ.regular import open_regular
from stream_occ.section import Section
from stream_occ.sinks import settings_class, sink_kinds

ENVIRONMENT_PREFIX = "STREAM_OCC__"
MAX_SECRET_BYTES = 4096
MIN_KEY_CHARACTERS = 16
_PATHS: tuple[KeyPath, ...] = (
    ("model",),
    ("model_key_file",),
    ("command_key_file",),
    ("mqtt", "password_file"),
    ("mqtt", "tls", "ca_file"),
    ("mqtt", "tls", "cert_file"),
    ("mqtt", "tls", "key_file"),
    ("state", "path"),
)
_SHOWN_OF_SINKS = frozenset({"kind", "host", "port", "security", "path", "format", "rotate", "max_bytes", "timeout_s"})
_SECRETS: frozenset[KeyPath] = frozenset({("mqtt", "password"), ("command_key",)})


@dataclass(slots=True)
class Draft:
    """Data on its way to a Config, and the problems found so far."""

    source: Path
    data: dict[str, Any]
    document: Document
    problems: list[ConfigError] = field(default_factory=list)
    variables: dict[KeyPath, str] = field(default_factory=dict)
    changed: set[KeyPath] = field(default_factory=set)

    def where(self, path: KeyPath) -> str:
        """Command line, variable, or file and line that gave the value at `path`; and its key."""
        shown = dotted(path)
        if any(path[:n] in self.changed for n in range(1, len(path) + 1)):
            return f"command line: {shown}"
        for n in range(len(path), 0, -1):
            if path[:n] in self.variables:
                return f"environment {self.variables[path[:n]]}: {shown}"
        start = f"{self.source}:{self.document.line_of(path)}"
        return f"{start}: {shown}" if shown else start

    def add(self, path: KeyPath, expected: str, got: str, remedy: str) -> None:
        """One more problem."""
        self.problems.append(ConfigError(self.where(path), expected, got, remedy))

    def apply_environment(self, environment: Mapping[str, str]) -> None:
        """Puts the variables' values over those of the file."""
        for name in sorted(environment):
            if not name.startswith(ENVIRONMENT_PREFIX):
                continue
            keys = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
            try:
                value = value_of_variable(name, keys, environment[name])
            except ConfigError as problem:
                self.problems.append(problem)
                continue
            section = self.data
            for key in keys[:-1]:
                if not isinstance(section.get(key), dict):
                    section[key] = {}
                section = section[key]
            section[keys[-1]] = value
            self.variables[keys] = name
            if keys in _SECRETS or keys[0] == "sinks":
                section.pop(f"{keys[-1]}_file", None)

    def apply_changes(self, changes: Mapping[str, Any]) -> None:
        """Puts values of the command line over all others."""
        for key, value in changes.items():
            if isinstance(value, dict):
                section = self.data.get(key)
                kept = {name: inner for name, inner in value.items() if inner is not None}
                self.data[key] = {**(section if isinstance(section, dict) else {}), **kept}
                self.changed |= {(key, name) for name in kept}
            elif value is not None:
                self.data[key] = value
                self.changed.add((key,))

    def resolve_paths(self) -> None:
        """Makes relative paths relative to the file's folder."""
        for *keys, last in _PATHS:
            section: Any = self.data
            for key in keys:
                section = section.get(key) if isinstance(section, dict) else None
            if isinstance(section, dict) and isinstance(section.get(last), str) and section[last]:
                section[last] = str(self.source.parent / section[last])

    def resolve_profiles(self) -> None:
        """Puts the content of named profiles in place of their names, each checked against its own file."""
        inputs = self.data.get("inputs")
        for i, entry in enumerate(inputs if isinstance(inputs, list) else []):
            if not isinstance(entry, dict) or "profile" not in entry:
                continue
            path: KeyPath = ("inputs", i, "profile")
            given, entry["profile"] = entry["profile"], {}
            try:
                if isinstance(given, str):
                    profile = _named_profile(given, self.source.parent, self.where(path))
                    entry["profile"] = _validated(profile, ProfileConfig, (), self.problems)
                elif isinstance(given, dict):
                    inline = Draft(self.source, given, self.document, variables=self.variables)
                    entry["profile"] = _validated(inline, ProfileConfig, path, self.problems)
                else:
                    self.add(path, "be the name of a profile, or its keys", _shown(path, given), "Name a profile")
            except ConfigError as problem:
                self.problems.append(problem)

    def resolve_sinks(self) -> None:
        """Checks each sink by the keys of its kind, with secrets of files in their place; a faulty one is taken out."""
        given = self.data.get("sinks")
        sinks: dict[str, Any] = given if isinstance(given, dict) else {}
        for name, entry in list(sinks.items()):
            path, n_before = ("sinks", name), len(self.problems)
            if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
                try:
                    self._resolve_sink(path, entry)
                except ConfigError as problem:
                    self.problems.append(problem)
            else:
                expected, remedy = f"be one of {', '.join(sink_kinds())}", "Say what kind of sink it is"
                self.add((*path, "kind"), expected, "no text" if isinstance(entry, dict) else "no keys", remedy)
            if len(self.problems) > n_before:
                del sinks[name]

    def _resolve_sink(self, path: KeyPath, entry: dict[str, Any]) -> None:
        model, n_before = settings_class(entry["kind"], self.where((*path, "kind"))), len(self.problems)
        for key in entry.keys() & model.model_fields.keys():
            variable = self.variables.get((*path, key))
            if variable is not None and not is_text(model.model_fields[key].annotation):
                entry[key] = parse_yaml(entry[key], f"environment {variable}").data
        for key in model.files():
            if isinstance(entry.get(key), str) and entry[key]:
                entry[key] = str(self.source.parent / entry[key])
        for key in model.secrets():
            self._read_secret(path, entry, key)
        if len(self.problems) == n_before:
            _validated(Draft(self.source, entry, self.document, variables=self.variables), model, path, self.problems)

    def _read_secret(self, path: KeyPath, entry: dict[str, Any], key: str) -> None:
        """Puts the content of the secret's file, where one is given, in its place."""
        file = entry.get(f"{key}_file")
        if file is not None and entry.get(key) is not None:
            self.add((*path, key), f"have {key} or {key}_file, not both", "both", "Remove one")
        elif isinstance(file, str) and (secret := self._secret((*path, f"{key}_file"), Path(file))) is not None:
            entry[key] = secret.get_secret_value()

    def validate(self) -> Config | None:
        """The checked configuration with its secret read, or None."""
        if broken := _text_problems(self, ()):
            self.problems.extend(broken)
            return None
        try:
            config = Config.model_validate_json(json.dumps(self.data), strict=True)
        except ValidationError as error:
            self.problems.extend(_problem(self, item, Config, ()) for item in error.errors(include_url=False))
            return None
        for name in ("ca_file", "cert_file", "key_file"):
            given = getattr(config.mqtt.tls, name)
            if given is not None and not given.is_file():
                self.add(("mqtt", "tls", name), "be an existing file", str(given), "Check the path")
        if config.state.path is not None and not config.state.path.name:  # empty, or the root
            self.add(("state", "path"), "name a file", str(config.state.path), "Leave it out for the default")
        config._password = config.mqtt.password or self._secret(("mqtt", "password_file"), config.mqtt.password_file)
        config._model_key = self._secret(("model_key_file",), config.model_key_file)
        config._command_key = config.command_key or self._secret(("command_key_file",), config.command_key_file)
        if config._command_key is not None and len(config._command_key.get_secret_value()) < MIN_KEY_CHARACTERS:
            path = "command_key" if config.command_key else "command_key_file"
            expected = f"be at least {MIN_KEY_CHARACTERS} characters long"
            self.add((path,), expected, "less", "Make one with: openssl rand -hex 32")
        return config

    def _secret(self, path: KeyPath, source: Path | None) -> SecretStr | None:
        """The one line of a secret's file."""
        if source is None:
            return None
        try:
            with open_regular(source) as file:
                secret = file.read(MAX_SECRET_BYTES + 1).decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            self.add(path, "be a readable text file", type(error).__name__, "Check the path and its permissions")
            return None
        if not secret or len(secret) > MAX_SECRET_BYTES or "\n" in secret:
            self.add(path, "hold one line with the secret", "none or more", "Write the secret alone into it")
            return None
        return SecretStr(secret)


def _named_profile(name: str, folder: Path, where: str) -> Draft:
    """The profile's file: profiles/<name>.yaml beside the configuration, else among those of the package."""
    package = Path(__file__).parent.parent
    folders = [place / "profiles" for place in (folder, package / "configs", package.parent / "configs")]
    if name.replace("-", "").replace("_", "").isalnum() and name.isascii():
        for candidate in folders:
            source = candidate / f"{name}.yaml"
            if source.is_file():
                document = load_yaml(source)
                if not isinstance(document.data, dict):
                    raise ConfigError(f"{source}:1", "hold the keys of a profile", "something else", "Correct the file")
                return Draft(source, document.data, document)
    known = sorted({file.stem for candidate in folders if candidate.is_dir() for file in candidate.glob("*.yaml")})
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"The nearest is {near[0]}. " if near else ""
    expected = f"be the name of a file in {folders[0]}"
    raise ConfigError(where, expected, repr(name)[:60], f"{hint}Known are: {', '.join(known) or 'none'}")


def _validated(draft: Draft, model: type[Section], prefix: KeyPath, problems: list[ConfigError]) -> dict[str, Any]:
    """The draft's data, or {} and its problems where it does not fit the model."""
    if broken := _text_problems(draft, prefix):
        problems.extend(broken)
        return {}
    try:
        model.model_validate_json(json.dumps(draft.data), strict=True)
    except ValidationError as error:
        problems.extend(_problem(draft, item, model, prefix) for item in error.errors(include_url=False))
        return {}
    return draft.data


def _text_problems(draft: Draft, prefix: KeyPath) -> list[ConfigError]:
    """What no JSON and no file name can hold; JSON's own error would show the start of the whole file, secrets too."""
    return [
        ConfigError(
            draft.where((*prefix, *path)), "be text without NUL or half characters", "such a one", "Correct the value"
        )
        for path in _broken_texts(draft.data, ())
    ]


def _broken_texts(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, str):
        if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in value):
            yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _broken_texts(key, path)
            yield from _broken_texts(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _broken_texts(inner, (*path, i))


def _problem(draft: Draft, item: ErrorDetails, root: type[Section], prefix: KeyPath) -> ConfigError:
    """One pydantic error in our words."""
    path, kind, context = item["loc"], item["type"], item.get("ctx", {})
    full = (*prefix, *path)
    if kind == "extra_forbidden":
        return ConfigError(draft.where(full), "be a known key", repr(path[-1]), nearest_key(root, path))
    if kind == "missing":
        return ConfigError(draft.where(full), "be given", "nothing", "Add the key")
    got = _shown(full, item["input"])
    if kind == "value_error":
        expected, _, remedy = str(context["error"]).partition("|")
        return ConfigError(draft.where(full), expected, got, remedy)
    expected = re.sub(r"^\w+ should ", "", item["msg"])
    expected = expected[:1].lower() + expected[1:]
    if not expected.startswith(("be ", "have ", "match ")):
        expected = f"pass: {expected}"
    remedy = (
        "Quote the value" if kind == "string_type" and isinstance(item["input"], int | float) else "Correct the value"
    )
    if kind == "literal_error":
        remedy = nearest(str(item["input"]), literals(item), remedy)
    return ConfigError(draft.where(full), expected, got, remedy)


def _shown(path: KeyPath, value: object) -> str:
    """The value for an error line: never a secret, never long, never a whole section."""
    is_secret = path in _SECRETS or any("password" in str(key) for key in path)
    if is_secret or (path[:1] == ("sinks",) and str(path[-1]) not in _SHOWN_OF_SINKS):
        return "***"
    if isinstance(value, dict):
        return "these keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
