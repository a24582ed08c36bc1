"""Keys of a configuration as people write them: dotted, the nearest known one, values of variables."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from stream_occ.config.models import Config
from stream_occ.config.yaml_lines import KeyPath, parse_yaml
from stream_occ.errors import ConfigError
from stream_occ.section import Section

__all__ = ["dotted", "is_text", "literals", "nearest_key", "value_of_variable"]


def nearest_key(root: type[Section], path: KeyPath) -> str:
    """A remedy for an unknown key: the nearest one of its section, else of any section, else those there are."""
    unknown, names = str(path[-1]), list(_section_at(root, path[:-1]).model_fields)
    near = difflib.get_close_matches(unknown, names, n=1, cutoff=0.6)
    if near:
        return f"The nearest key is {dotted((*path[:-1], near[0]))}"
    elsewhere: dict[str, str] = {}
    for keys in _all_keys(root, ()):
        elsewhere.setdefault(str(keys[-1]), dotted(keys))
    near = difflib.get_close_matches(unknown, list(elsewhere), n=1, cutoff=0.75)
    if near:
        return f"The nearest key is {elsewhere[near[0]]}"
    return f"Known keys here are {', '.join(names)}"


def literals(problem: Any) -> list[str]:
    """Names among which pydantic wanted one, of its error for a value that is none of them."""
    return re.findall(r"'([^']+)'", problem["ctx"]["expected"])


def _section_at(root: type[Section], path: KeyPath) -> type[Section]:
    section = root
    for key in path:
        if isinstance(key, str):
            section = _section_of(section.model_fields[key].annotation) or section
    return section


def _all_keys(section: type[Section], prefix: KeyPath) -> Iterator[KeyPath]:
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _all_keys(inner, (*prefix, name))
        else:
            yield (*prefix, name)


def _section_of(annotation: Any) -> type[Section] | None:
    """The section in an annotation such as tuple[InputConfig, ...] or ProfileConfig | str."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return typing.cast(type[Section], annotation)
    found = (_section_of(argument) for argument in typing.get_args(annotation))
    return next((section for section in found if section is not None), None)


def value_of_variable(name: str, keys: tuple[str, ...], text: str) -> Any:
    """The value of a variable: texts as they are, anything else read as YAML; raises ConfigError for unknown keys."""
    if keys[0] == "sinks" and len(keys) == 3:
        return text  # what it should be is known with the kind
    section: type[Section] = Config
    for i, key in enumerate(keys):
        if key not in section.model_fields:
            remedy = nearest_key(Config, keys[: i + 1]) if i == 0 or section is not Config else "Correct the name"
            remedy = remedy if i == len(keys) - 1 else f"{remedy}; sections and keys are joined by two underscores"
            raise ConfigError(f"environment {name}", "name a known key", repr(dotted(keys)), remedy)
        annotation = section.model_fields[key].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, Section)):
            if i < len(keys) - 1:
                raise ConfigError(f"environment {name}", "name a known key", repr(dotted(keys)), "Set the whole key")
            return text if is_text(annotation) else parse_yaml(text, f"environment {name}").data
        section = annotation
    raise ConfigError(f"environment {name}", "name a key", f"the section {dotted(keys)}", "Set its keys one by one")


def is_text(annotation: Any) -> bool:
    """True where only a text, a path, a secret or None fits."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(is_text(argument) for argument in typing.get_args(annotation))
    if typing.get_origin(annotation) is typing.Literal:
        return all(isinstance(argument, str) for argument in typing.get_args(annotation))
    if typing.get_origin(annotation) is typing.Annotated:
        return is_text(typing.get_args(annotation)[0])
    return annotation in (str, Path, SecretStr, type(None))


def dotted(path: KeyPath) -> str:
    """mqtt.port, inputs[0].codec."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text
