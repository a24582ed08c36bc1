"""Pieces of an HTML page without any outside asset: escaped tables, plots as PNG inside it, a file written whole.

Names that came from data are escaped in HTML and kept from matplotlib's formula syntax in plots.
"""

from __future__ import annotations

import base64
import html
import io
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from stream_occ.errors import StreamOccError

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito
MAX_LABEL = 40

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2937; background: #fff; max-width: 66rem; margin: 2rem auto;
        padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2.2rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e5e7eb; vertical-align: top; }}
th.n, td.n {{ text-align: right; }} td {{ overflow-wrap: anywhere; }}
img {{ max-width: 100%; height: auto; }} summary {{ cursor: pointer; margin: .4rem 0; }}
.note {{ border-left: 4px solid #d55e00; padding: .4rem .9rem; background: #fff7ed; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def page(title: str, sections: Iterable[tuple[str, str]], *, preface: str = "") -> str:
    """A whole page. title and heads are text; preface and the sections' contents are HTML."""
    parts = [preface, *(f"<h2>{text(head)}</h2>\n{content}" for head, content in sections)]
    return _PAGE.format(title=text(title), body="\n".join(parts))


def write_page(content: str, path: Path, *, flag: str) -> None:
    """Writes the page, whole or not at all; StreamOccError where the disk refuses."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise StreamOccError(str(path), "be writable", str(error), f"Give another {flag} path") from error
    finally:
        temporary.unlink(missing_ok=True)


def text(value: object) -> str:
    """Escaped for HTML, quotes too."""
    return html.escape(str(value), quote=True)


def label(name: str) -> str:
    """A name for a plot: short, and with no dollar sign, which would start a formula."""
    name = name if len(name) <= MAX_LABEL else name[: MAX_LABEL - 1] + "…"
    return name.replace("$", r"\$")


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    lines = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in rows)
    return f'<div class="wide"><table>{lines}</table></div>'


def grid(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head; the first column is text, the others are numbers."""
    first, *others = heads
    head = f"<th>{text(first)}</th>" + "".join(f'<th class="n">{text(name)}</th>' for name in others)
    body = "".join(
        f"<tr><td>{text(name)}</td>" + "".join(f'<td class="n">{text(value)}</td>' for value in values) + "</tr>"
        for name, *values in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def folded(summary: str, content: str) -> str:
    """HTML behind a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "<ul>" + "".join(f"<li>{text(line)}</li>" for line in lines) + "</ul>"


def notes(lines: Iterable[str]) -> str:
    """One marked paragraph a line."""
    return "".join(f'<p class="note">{text(line)}</p>' for line in lines)


def image(draw: Callable[[Any], None], alt: str, *, height_in: float = 4.2) -> str:
    """A plot, 8 inches wide, as an <img> with its PNG inside; a glyph that the font lacks is no reason to fail."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw(axes)
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<p><img alt="{text(alt)}" src="data:image/png;base64,{data}"></p>'
