"""The documentation as a site: no warning, every link leads somewhere, nothing comes from elsewhere."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.integration.dashboard import chromium

REPO = Path(__file__).resolve().parents[2]
PAGES = {path.stem: path for path in sorted((REPO / "docs").glob("*.md"))}
PAGES |= {"index": REPO / "README.md", "changelog": REPO / "CHANGELOG.md", "contributing": REPO / "CONTRIBUTING.md"}
COUNTED = {"h1", "h2", "h3", "h4", "ul", "ol", "li", "pre", "th", "td", "strong", "em"}

pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


class Page(HTMLParser):
    """Anchors, links, what is loaded, and how many elements of each kind the article has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.counts: Counter[str] = Counter()
        self._in_article = "<article" not in html
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        self._in_article |= tag == "article"
        if self._in_article and tag in COUNTED:
            self.counts[tag] += 1
        if tag == "a":
            self.links += [named["href"]] if "href" in named else []
        elif named.get("rel") not in ("next", "prev"):
            self.loaded += [named[name] for name in ("href", "src", "srcset", "data", "poster") if name in named]

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._in_article = False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `mkdocs build --strict` makes it, which ends with 0 and has nothing to warn of."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of the theme, about another tool of the same name
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_link_within_the_site_leads_to_a_file_and_an_anchor(site: Path, pages: dict[Path, Page]) -> None:
    """Those that the theme makes too; links to elsewhere are https."""
    wrong = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                if parts.scheme != "https":
                    wrong.append(f"{path.name}: {link}")
                continue
            if path.name == "404.html":  # its links are absolute: of a site at the root of its host
                at = site / unquote(parts.path).lstrip("/")
            else:
                at = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = at.is_file() or (at / "index.html").is_file()
            if not is_there or (parts.fragment and at in pages and unquote(parts.fragment) not in pages[at].anchors):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    """Neither by a page nor by a style sheet, and there are no diagrams, whose program the theme would fetch."""
    assert [link for page in pages.values() for link in page.loaded if "//" in link] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    urls = re.findall(r"url\(\s*[\"']?([^\"')]+)|(@import)", styles)
    assert [url for url, imported in urls if imported or not url.startswith(("data:", "#"))] == []
    assert [path.name for path in pages if "mermaid" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_lists_tables_and_blocks_that_github_shows(pages: dict[Path, Page], name: str) -> None:
    """As many as by CommonMark; Python-Markdown has lists begin and end elsewhere."""
    [built] = [page for path, page in pages.items() if path.name == f"{name}.html" and path.parent.name != "schemas"]
    html = MarkdownIt("commonmark").enable("table").render(PAGES[name].read_text(encoding="utf-8"))
    assert built.counts == Page(html).counts


def test_reference_has_every_command_key_name_and_schema(site: Path) -> None:
    """Commands are files of stream_occ/cli, keys those of configs/edge.yaml, names the public ones."""
    commands = Page((site / "commands.html").read_text(encoding="utf-8"))
    files = {path.stem for path in (REPO / "stream_occ" / "cli").glob("[!_]*.py")}
    assert files | {"config-check", "config-show"} <= commands.anchors
    keys = re.findall(r"^(\w+:)|^  (?:- )?(\w+):", (REPO / "configs" / "edge.yaml").read_text(), re.MULTILINE)
    assert [key for _, key in keys if key and f"{key}</code>" not in (site / "keys.html").read_text()] == []
    names = Page((site / "python.html").read_text(encoding="utf-8")).anchors
    wanted = "ocnn.OCNN ensembles.RandomProjectionEnsemble ensembles.RandomSubspaceEnsemble krr.KernelRidgeOCC"
    wanted += " krr.KernelRidgeAutoEncoder krr.MultiLayerKRR kernel_pca.KernelPCANovelty svm.SVDD ocnn.OCNN.nn_ratio"
    assert {f"stream_occ.detectors.{name}" for name in wanted.split()} <= names
    assert {"stream_occ.features.load", "stream_occ.artifacts.save_model", "stream_occ.artifacts.load_model"} <= names
    schemas = Page((site / "schemas" / "index.html").read_text(encoding="utf-8")).links
    assert {path.name for path in (REPO / "docs" / "schemas").glob("*.json")} <= set(schemas)


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(address: str, scheme: str) -> None:
    """axe-core finds nothing serious: contrast, names, what the keyboard reaches, links told by more than colour."""
    from axe_playwright_python.sync_playwright import Axe

    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        for name in ("index", "evaluation"):
            page.goto(f"{address}/{name}.html")
            page.wait_for_timeout(200)  # the theme frames tables when it has loaded
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] == "serious"] == [], name
        page.close()


def test_search_finds_a_page_without_the_internet(address: str) -> None:
    """In a real browser, which is seen to ask nobody but the site itself."""
    with chromium() as browser:
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith((address, "data:")) or wrong.append(request.url))
        page.goto(f"{address}/index.html")
        page.fill("input[name=query]", "received_up_to")
        page.locator(".md-search-result__link[href*='topics.html']").first.wait_for(timeout=20_000)
        page.goto(f"{address}/files/configs/edge.yaml.html")
        page.locator("code", has_text="refractory_s").first.wait_for()
        page.close()
        assert wrong == []
