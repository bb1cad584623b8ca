"""Markdown pages of the site: documents with rewritten links, source files that documents link to, and assets."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path, PurePosixPath

from website.links import is_local, links_of, replace_links, site_link, target_of
from website.repository import DOCUMENTS, ROOT, document_pages, site_path, source_page

# A picture follows the colour scheme of the system. The site has a switch, and its theme chooses by these endings.
PICTURE = re.compile(r'<picture><source [^>]*srcset="([^"]+)"><img alt="([^"]*)" src="([^"]+)"></picture>')
LANGUAGES = {
    ".py": "python",
    ".lua": "lua",
    ".sh": "bash",
    ".mjs": "javascript",
    ".toml": "toml",
    ".yaml": "yaml",
    ".json": "json",
    ".service": "ini",
}
# Files that settings name, beside those of docs/.
ASSETS = (Path(__file__).with_name("site.css"), ROOT / "src/windlass/web/static/windlass.svg")
EXAMPLES = PurePosixPath("examples")  # the navigation names it
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"  # code would hide the documents in the results
# Pages that use the width of the window, without the lists of pages and headings beside them.
WIDE = {PurePosixPath("index.md")}


def write_pages(folder: Path) -> None:
    """Write all pages and assets into a folder."""
    shutil.copytree(ROOT / DOCUMENTS, folder, ignore=shutil.ignore_patterns("*.md"))
    (folder / "assets").mkdir()
    for asset in ASSETS:
        shutil.copy(asset, folder / "assets")
    pages = document_pages()
    for page, document in pages.items():
        _write(folder / page, page_of(document))
    for source in linked_sources(list(pages.values())):
        _write(folder / source_page(source), source_text(source))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def page_of(document: PurePosixPath) -> str:
    """Return the page that is made of a document."""
    text = replace_links((ROOT / document).read_text(), lambda link: site_link(link, document))
    text = PICTURE.sub(r'<img alt="\2" src="\3#only-light"><img alt="\2" src="\1#only-dark">', text)
    hidden = "---\nhide: [navigation, toc, path]\n---\n\n" if site_path(document) in WIDE else ""
    return hidden + text


def linked_sources(documents: list[PurePosixPath]) -> set[PurePosixPath]:
    """Return files and folders that documents link to and that are no documents themselves, with the files in them."""
    targets = {
        target_of(link, document)
        for document in documents
        for link in links_of((ROOT / document).read_text())
        if is_local(link)
    }
    found = {EXAMPLES} | {target for target in targets if target.parts[0] != DOCUMENTS and target.suffix != ".md"}
    return found | {folder / file for folder in found for file in _files(folder)}


def _files(folder: PurePosixPath) -> list[PurePosixPath]:
    """Return the source files in a folder, by their paths in it. Packages of src/ come without sub-packages."""
    path = ROOT / folder
    found = path.glob("*") if folder.parts[0] == "src" else path.rglob("*")
    return sorted(PurePosixPath(file.relative_to(path)) for file in found if file.suffix in LANGUAGES)


def source_text(source: PurePosixPath) -> str:
    """Return the page of a source file or of a folder."""
    if (ROOT / source).is_dir():
        title = "Examples" if source == EXAMPLES else f"{source}/"
        return NOT_SEARCHED + f"# {title}\n\n" + "".join(_entry(source, file) for file in _files(source))
    language = LANGUAGES.get(source.suffix, "text")
    text = (ROOT / source).read_text().rstrip()
    return NOT_SEARCHED + f"# {source.name}\n\n`{source}` in the repository:\n\n```{language}\n{text}\n```\n"


def _entry(folder: PurePosixPath, file: PurePosixPath) -> str:
    """Return the line of a file in the list of its folder: its name and the first line of its description."""
    text = (ROOT / folder / file).read_text()
    description = ast.get_docstring(ast.parse(text)) if file.suffix == ".py" else None
    return f"- [{file}]({file}.md)" + (f": {description.splitlines()[0]}" if description else "") + "\n"
