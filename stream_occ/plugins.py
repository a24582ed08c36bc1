"""Finding one file by name: a detector, feature set, codec, data set or scorer is a module, and nothing keeps a list.

A family is a package; its members are its modules without a leading underscore (`_` in a file name is `-` in a name)
and what other people's packages offer under an entry-point group of the same name, e.g. `stream_occ.codecs`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from stream_occ.errors import InputError, nearest


def plugin_names(family: str) -> tuple[str, ...]:
    """Names of the members of `family` (a package's dotted name), sorted.

    >>> "khan31r" in plugin_names("stream_occ.features")
    True
    """
    own = {info.name for info in iter_modules(import_module(family).__path__) if not info.name.startswith("_")}
    return tuple(sorted({name.replace("_", "-") for name in own | set(_offered(family))}))


def load_plugin(family: str, name: str, *, kind: str, error: type[InputError]) -> Any:
    """The module, or the object of an entry point, called `name`; raises `error` with the nearest valid name.

    A module of the package itself wins over an entry point of the same name: no other package can replace it.
    """
    file_name = name.replace("-", "_")
    module = f"{family}.{file_name}"
    if file_name.isidentifier() and not file_name.startswith("_"):
        try:
            return import_module(module)
        except ModuleNotFoundError as missing:
            if missing.name != module:  # the plugin is there; something that it needs is not
                raise
        offered = _offered(family)
        if name in offered:
            return offered[name].load()
    known = plugin_names(family)
    raise error(kind, f"be one of {', '.join(known)}", repr(name)[:60], nearest(name, known, "Use one of these"))


def _offered(family: str) -> dict[str, Any]:
    """Entry points of other packages by name; looked up late, since it reads every installed package's metadata."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=family)}
