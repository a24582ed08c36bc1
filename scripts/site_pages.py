"""Hook of mkdocs: pages made at build time of what lies outside of docs/, and links to it.

README, CHANGELOG and CONTRIBUTING become pages; a file or folder of the repository that a page links to becomes a page
that shows it; docs/schemas gets a page that lists it. Headings have the anchors that GitHub gives them.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

REPO = Path(__file__).resolve().parents[1]
TOP_LEVEL = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
FILES = "files"
"""Folder of the site for what lies outside of docs/."""
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
ITEM = re.compile(r" *(?:[-*+]|\d+\.) ")
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".json": "json",
    ".svg": "xml",
    ".ino": "cpp",
    ".h": "cpp",
    ".service": "ini",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors as GitHub makes them, since pages are read there too; pages that `nav` does not name come last in it."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    new = [path.name for path in sorted((REPO / "docs").glob("*.md")) if f"'{path.name}'" not in str(config.nav)]
    if config.nav is not None and new:
        config.nav.append({"More": new})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds what is made."""
    made = {page: (REPO / name).read_text(encoding="utf-8") for name, page in TOP_LEVEL.items()}
    made["schemas/index.md"] = schema_list()
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    lost = [path for uri, text in texts.items() for path in linked(uri, text) if not (REPO / path).exists()]
    if lost:
        raise PluginError(f"{lost[0]}: must be there, since a page links to it: pages are read in the repository too")
    for path in sorted({path for uri, text in texts.items() for path in linked(uri, text) if not in_site(path)}):
        page = File.generated(config, shown_as(path), content=shown(path), inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what lies outside of docs/ lead to the page that shows it."""
    folder = posixpath.dirname(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        path = target(page.file.src_uri, match[1])
        uri = path.removeprefix("docs/") if path.startswith("docs/") else TOP_LEVEL.get(path) or shown_as(path)
        if uri == "schemas":
            uri = "schemas/index.md"
        return posixpath.relpath(uri, folder or ".")

    return markdown if page.file.src_uri.startswith(f"{FILES}/") else LINK.sub(led, apart(markdown))


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """The theme's search has a role and no name."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def apart(markdown: str) -> str:
    """The same for Python-Markdown, which asks for a blank line before a list and for four spaces within its items."""
    lines: list[str] = []
    shift, in_fence, previous = 0, False, ""
    for line in markdown.splitlines():
        text = line.lstrip()
        indent, is_item = len(line) - len(text), ITEM.match(line) is not None
        if text and not in_fence:
            ends_block = shift > 0 or previous == previous.lstrip() or previous.lstrip() == "```"
            if is_item or indent < 2:
                shift = 0
            elif indent < 4 and not previous:
                shift = 4 - indent
            if is_item and previous and ends_block and not ITEM.match(previous):
                lines.append("")
        in_fence ^= text.startswith("```")
        lines.append(" " * shift + line if text else "")
        previous = line.rstrip()
    return "\n".join(lines) + "\n"


def target(uri: str, link: str) -> str:
    """Path in the repository of what a page links to."""
    source = {page: name for name, page in TOP_LEVEL.items()}.get(uri, f"docs/{uri}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def linked(uri: str, text: str) -> list[str]:
    """Paths in the repository that a page links to."""
    return [target(uri, link) for link in LINK.findall(text)]


def in_site(path: str) -> bool:
    """Whether the site has it in any case."""
    return path.startswith("docs/") or path in TOP_LEVEL


def shown_as(path: str) -> str:
    """Page that shows a file or folder."""
    return f"{FILES}/{path}.md"


def shown(path: str) -> str:
    """A file as a block of code; a folder as all of its files."""
    place = REPO / path
    parts = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    text = [f"# {path}"]
    for part in parts:
        text += [f"## {part.relative_to(place)}"] if place.is_dir() else []
        text += [f"````{LANGUAGES.get(part.suffix, 'text')}\n{part.read_text(encoding='utf-8')}\n````"]
    return "\n\n".join(text) + "\n"


def schema_list() -> str:
    """Each JSON Schema with what it says of itself."""
    rows = []
    for path in sorted((REPO / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        rows.append(f"| [{path.stem}]({path.name}) | {' '.join(schema.get('description', '').split())} |")
    return "# JSON Schemas\n\n| message | |\n|---|---|\n" + "\n".join(rows) + "\n"
