"""YAML as plain data with the line of every key: bounded in size and depth, no tags, no duplicate keys."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stream_occ.errors import ConfigError
from stream_occ.regular import open_regular

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_NODES = 20_000  # counted after aliases are followed, so that a small file cannot stand for a huge one

KeyPath = tuple[str | int, ...]
Plain = dict[str, Any] | list[Any] | str | int | float | bool | None

_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")}
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"
_TEXT_TAG = "tag:yaml.org,2002:str"
_NUMBER_TAGS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
# YAML 1.1 reads 1:30 as 90, 010 as 8, 0x10 as 16 and 1_0 as 10: few mean it, and YAML 1.2 reads them otherwise.
_DECIMAL = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|nan)", re.IGNORECASE
)


class _Loader(yaml.SafeLoader):
    """Also takes 1e-3 for a number, as YAML 1.2 does; YAML 1.1 wants 1.0e-3."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data and, for each key and list entry, the line (from 1) on which it stands."""

    data: Plain
    lines: dict[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """Line of `path`, or of the nearest enclosing key that has one; 1 where there is none."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load_yaml(path: Path) -> Document:
    """The document in the file, `-` being standard input; raises ConfigError with file:line."""
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            str(path), "be a readable file", error.strerror or "an error", "Check the path and its permissions"
        ) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(str(path), f"have at most {MAX_BYTES} bytes", "more", "Is this the right file?")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}", "be UTF-8 text", "other bytes", "Save the file as UTF-8") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Document:
    """The document in `text`, called `name` in errors.

    >>> document = parse_yaml("mqtt:\\n  port: 1883\\n", "edge.yaml")
    >>> document.data, document.line_of(("mqtt", "port"))
    ({'mqtt': {'port': 1883}}, 2)
    """
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        got = f"the character {text[error.position]!r}"
        raise ConfigError(f"{name}:{line}", "be text without control characters", got, "Remove it") from error
    try:
        node = loader.get_single_node()
        walker = _Walker(loader, name)
        data = walker.plain(node, (), 0) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        problem = error.problem or error.context or "it does not parse"
        raise ConfigError(f"{name}:{line}", "be YAML", problem, "Correct the line, or the one before it") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(name, "be YAML", str(error).partition("\n")[0], "Correct the file") from error
    finally:
        loader.dispose()
    return Document(data, walker.lines)


class _Walker:
    """Makes plain data of nodes and notes their lines."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self.loader = loader
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self.n_nodes = 0

    def plain(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES or depth > MAX_DEPTH:
            bound = f"{MAX_NODES} values" if self.n_nodes > MAX_NODES else f"{MAX_DEPTH} levels"
            raise self._error(node, f"hold at most {bound}", "more", "Leave out aliases and nesting")
        self.lines.setdefault(path, _line(node))
        if node.tag not in _TAGS:
            raise self._error(node, "hold plain values", f"the tag {node.tag}", "Remove the tag, or quote the value")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(child, (*path, i), depth + 1) for i, child in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TEXT_TAG:
                raise self._error(key_node, "have texts for keys", "another kind of key", "Quote the key")
            if key in result:
                first = self.lines[(*path, key)]
                raise self._error(
                    key_node, f"have {key!r} once in its section", f"it again after line {first}", "Remove one"
                )
            self.lines[(*path, key)] = _line(key_node)
            result[key] = self.plain(value_node, (*path, key), depth + 1)
        return result

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag == _TIMESTAMP_TAG:
            return node.value
        if node.tag in _NUMBER_TAGS and not _DECIMAL.fullmatch(node.value):
            raise self._error(node, "hold numbers in decimal", node.value[:40], "Write it in decimal, or quote a text")
        value = self.loader.construct_object(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(node, "hold finite numbers", node.value, "Give a number")
        return value

    def _error(self, node: yaml.Node, expected: str, got: str, remedy: str) -> ConfigError:
        return ConfigError(f"{self.name}:{_line(node)}", expected, got, remedy)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
