"""Extension of griffe, which reads docstrings for the site: ours are not quite as it takes them."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?m)^>>> .*(?:\n(?!\n).+)*")
PARAMETER = re.compile(r"(?m)^([a-zA-Z_][\w, ]*) : (.+)$")
SECTION = re.compile(r"(?m)^Examples\n-+$")


class OurDocstrings(griffe.Extension):
    """Doctests outside of a section Examples are code, and what follows a parameter's name is words, not its type."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Each function and class as it is read."""
        if obj.docstring is None:
            return
        text = PARAMETER.sub(r"\1\n    \2", obj.docstring.value).replace("\n    >=", "\n    \\>=")  # no quotation
        if not SECTION.search(text):
            text = DOCTEST.sub(lambda match: f"```pycon\n{match[0]}\n```", text)
        obj.docstring.value = text
