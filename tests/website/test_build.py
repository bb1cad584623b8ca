"""The built site: its links, what its pages load, and the text of the documents."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.website.conftest import TOOL
from tests.website.html_page import HtmlPage
from website import build as building
from website.repository import document_pages

pytestmark = pytest.mark.xdist_group("website")  # one build for all
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
# A page that is served for any unknown address knows no relative links.
WITHOUT_PLACE = "404.html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, HtmlPage]:
    return {path: HtmlPage(path.read_text()) for path in site.rglob("*.html") if path.name != WITHOUT_PLACE}


def target_of(link: str, page: Path) -> Path:
    """Return the file that a web server would answer with."""
    path = (page.parent / unquote(urlsplit(link).path)).resolve() if urlsplit(link).path else page
    return path / "index.html" if path.is_dir() else path


def is_foreign(link: str) -> bool:
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def test_links_lead_to_pages_and_anchors(pages: dict[Path, HtmlPage], site: Path) -> None:
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not is_foreign(link) and not leads_somewhere(link, path, pages)
    ]
    assert broken == []


def leads_somewhere(link: str, path: Path, pages: dict[Path, HtmlPage]) -> bool:
    target, anchor = target_of(link, path), unquote(urlsplit(link).fragment)
    if target not in pages:
        return target.is_file() and not anchor
    return not anchor or anchor in pages[target].anchors


def test_pages_load_only_files_of_the_site(pages: dict[Path, HtmlPage], site: Path) -> None:
    loaded = {(path, link) for path, page in pages.items() for link in page.loads}
    assert len({link.rpartition("/")[2] for _, link in loaded}) > 20  # pictures, scripts, styles
    missing = {
        link for path, link in loaded if is_foreign(link) or not target_of(link.partition("#")[0], path).is_file()
    }
    assert missing == set()


def test_styles_load_only_files_of_the_site(site: Path) -> None:
    styles = {path: path.read_text() for path in site.rglob("*.css")}
    assert len(styles) > 2
    for path, style in styles.items():
        for link in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style):
            address = "".join(link)
            assert address.startswith(("data:", "#")) or target_of(address, path).is_file(), (path, address)


@pytest.mark.parametrize("page", document_pages(), ids=str)
def test_the_text_is_that_of_the_document(page: PurePosixPath, site: Path) -> None:
    """Compare with a CommonMark renderer, as repositories use one: a document must not need the tool."""
    document = FRONT_MATTER.sub("", (site.parent / "pages" / page).read_text())
    expected = HtmlPage(MarkdownIt("commonmark").enable("table").render(document)).text
    folder = page.parent if page.name == "index.md" else page.with_suffix("")
    built = HtmlPage((site / folder / "index.html").read_text(), within="article").text
    assert joined(built) == joined(expected)


def joined(blocks: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out paragraphs inside of lists: renderers differ in when a list has them."""
    found: list[tuple[str, str]] = []
    for name, text in blocks:
        if name == "p" and found and found[-1][0] in ("li", "p", "pre", "blockquote"):
            found[-1] = (found[-1][0], found[-1][1] + text)
        else:
            found.append((name, text))
    return found


def test_the_search_knows_the_glossary(site: Path) -> None:
    index = json.loads((site / "search.json").read_text())
    titles = {item["title"] for item in index["items"]}
    assert {"Lease token", "Dialect", "Tutorial: ten minutes with Windlass"} <= titles


def test_a_broken_link_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_pages(folder: Path) -> None:
        folder.mkdir()
        (folder / "index.md").write_text("# Home\n\nRead [the tutorial](tutorial.md).\n")

    monkeypatch.setattr(building, "write_pages", write_pages)
    monkeypatch.setattr(building, "navigation", lambda: [{"Home": "index.md"}])
    with pytest.raises(building.BuildFailed, match=r"tutorial\.md"):
        building.build(tmp_path, TOOL)
