"""Hook of mkdocs: reference pages made of the code at build time: commands, keys of configurations, Python names."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from stream_occ import cli
from stream_occ.cli import _commands
from stream_occ.config import Config, ProfileConfig
from stream_occ.sinks import settings_class, sink_kinds
from stream_occ.training.config import TrainingConfig

REPO = Path(__file__).resolve().parents[1]
PUBLIC = {
    "stream_occ.detectors": (
        "preset",
        "preset_names",
        "OCNN",
        "RandomProjectionEnsemble",
        "RandomSubspaceEnsemble",
        "KernelRidgeOCC",
        "KernelRidgeAutoEncoder",
        "MultiLayerKRR",
        "KernelPCANovelty",
        "SVDD",
        "KernelOCSVM",
        "EvidenceFusion",
    ),
    "stream_occ.features": ("load", "FeatureSet"),
    "stream_occ.artifacts": ("save_model", "load_model", "verify_model"),
    "stream_occ.datasets": ("open_dataset", "dataset_names", "load_table"),
    "stream_occ.codecs": ("load_codec", "codec_names", "Codec"),
    "stream_occ.samples": ("SampleBlock", "Recording", "Window", "Decision", "Alert", "DeviceProfile"),
}
BOUNDS = {"minimum": ">= ", "exclusiveMinimum": "> ", "maximum": "<= ", "exclusiveMaximum": "< "}
DEFAULT = re.compile(r"((?<!\.)\.|^(true|false)[ |a-z]*\.)? default (?!.* default ).*$")
COMMENTED_KEY = re.compile(r"^( *)(?:- )?(\w+):[^#]*#\s*(.*)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for uri, content in (("commands.md", commands()), ("keys.md", keys()), ("python.md", python_names())):
        files.append(File.generated(config, uri, content=content))
    return files


def commands() -> str:
    """What `--help` of each command and subcommand prints."""
    parts = ["# Command line", block(help_of())]
    for name in _commands.command_names():
        module = import_module(f"stream_occ.cli.{name.replace('-', '_')}")
        parts += [f"## {name}", block(help_of(name))]
        group = getattr(module, "app", None)
        for info in group.registered_commands if group else ():
            sub = info.name or info.callback.__name__.replace("_", "-")
            parts += [f"### {name} {sub}", block(help_of(name, sub))]
    return "\n\n".join(parts) + "\n"


def help_of(*names: str) -> str:
    """Text of one `--help`."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.run([*names, "--help"])
    if code != 0:
        raise PluginError(f"stream-occ {' '.join(names)} --help must end with 0; got {code}")
    return printed.getvalue().strip("\n")


def block(text: str) -> str:
    """As it is in a terminal."""
    return f"```text\n{text}\n```"


def keys() -> str:
    """Tables of keys: from the models that read them, and the words beside them in the files of configs/."""
    parts = [
        "# Keys of configurations",
        "What each key may be, and what it is where it is left out. [Configuration](configuration.md) says how files,"
        " variables and flags come together, [training](training.md) what the choices are good for.",
        "## `detect` and `record`\n\nAll of them in one file: [configs/edge.yaml](../configs/edge.yaml).\n\n"
        + table(Config, words("edge.yaml")),
        "## A profile\n\nOf `inputs.profile`, or a file in `profiles/`.\n\n"
        + table(ProfileConfig, words("profiles/si.yaml")),
    ]
    parts += [
        f"## A sink of kind `{kind}`\n\nIn words: [sinks](sinks.md).\n\n" + table(settings_class(kind, "sinks"), {})
        for kind in sink_kinds()
    ]
    told = "What each is for stands in [configs/train.yaml](../configs/train.yaml)."
    parts.append(f"## `train --config`\n\n{told}\n\n" + table(TrainingConfig, words("train.yaml")))
    return "\n\n".join(parts) + "\n"


def words(name: str) -> dict[str, str]:
    """Dotted key -> the comment beside it in a file of configs/, but for its last sentence, which is the default."""
    said: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in (REPO / "configs" / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"( *)(?:- )?\{?(\w+):", line):
            indent = len(match[1])
            stack = [(i, key) for i, key in stack if i < indent] + [(indent, match[2])]
            comment = COMMENTED_KEY.match(line)
            text = comment[3] if comment else ""
            said[".".join(key for _, key in stack)] = DEFAULT.sub("", text)
    return said


def table(model: Any, said: dict[str, str]) -> str:
    """One row a key."""
    schema = model.model_json_schema()
    rows = [
        f"| `{key}` | {kind} | {default} | {cell(said.get(key, ''))} |"
        for key, kind, default in rows_of(schema, schema.get("$defs", {}))
    ]
    return "\n".join(["| key | value | default | for |", "|---|---|---|---|", *rows])


def rows_of(schema: dict[str, Any], defs: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, what it may be, its default."""
    for name, field in schema["properties"].items():
        items = field.get("items", {})
        inner = defs.get((field.get("$ref") or items.get("$ref") or "").rpartition("/")[2])
        if inner and "properties" in inner:
            yield from rows_of(inner, defs, f"{prefix}{name}.")
        else:
            default = "none" if name in schema.get("required", ()) else code(field.get("default"))
            yield f"{prefix}{name}", cell(kind_of(field, defs)), default


def kind_of(field: dict[str, Any], defs: dict[str, Any]) -> str:
    """Type, choices and bounds in words."""
    if "anyOf" in field:
        return ", or ".join(kind_of(each, defs) for each in field["anyOf"])
    if "$ref" in field:
        return "keys and values"
    if "enum" in field or "const" in field:
        return " ".join(code(value) for value in field.get("enum", [field.get("const")]))
    bounds = " and ".join(sign + number(field[name]) for name, sign in BOUNDS.items() if name in field)
    kind = {
        "null": "`null`",
        "string": "text",
        "array": "list",
        "object": "keys and values",
        "boolean": "`true` `false`",
    }
    return " ".join([kind.get(field.get("type", ""), field.get("type", "anything")), *([bounds] if bounds else [])])


def code(value: object) -> str:
    """As in YAML."""
    if isinstance(value, dict) and value:
        return "those of each key"
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def number(value: float) -> str:
    """Thousands apart, whole where it is."""
    return f"{int(value):,}" if value == int(value) else str(value)


def cell(text: str) -> str:
    """Fit for a cell of a table; pages that it names are links."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text.replace("|", "\\|").replace("<", "&lt;"))


def python_names() -> str:
    """A directive of mkdocstrings for each public name; a name that is not there ends the build."""
    parts = ["# Python", "What other people's code may rest upon; what is not here may change at any time."]
    for module, names in PUBLIC.items():
        parts.append(f"## {module}")
        for name in names:
            home = getattr(import_module(module), name).__module__
            parts.append(f"::: {home}.{name}\n    options:\n      heading_level: 3\n      heading: {name}")
    return "\n\n".join(parts) + "\n"
