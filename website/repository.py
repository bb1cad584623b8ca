"""Places of the repository's files in the site."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
DOCUMENTS = "docs"
# Documents beside docs/ that are pages of the site.
ROOT_DOCUMENTS = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "overview.md",  # the site has a home page of its own
    "SECURITY.md": "security.md",
}


def site_path(path: PurePosixPath) -> PurePosixPath:
    """Return the place in the site of a file or folder, given by its path in the repository."""
    if str(path) in ROOT_DOCUMENTS:
        return PurePosixPath(ROOT_DOCUMENTS[str(path)])
    if path.parts[:1] == (DOCUMENTS,):
        return _document_path(PurePosixPath(*path.parts[1:]))
    return source_page(path)


def _document_path(path: PurePosixPath) -> PurePosixPath:
    if path.name == "README.md":
        return path.with_name("index.md")
    return path if path.suffix else path / "index.md"


def source_page(path: PurePosixPath) -> PurePosixPath:
    """Return the page that shows a source file or lists a folder."""
    page = PurePosixPath("source") / path
    return page / "index.md" if (ROOT / path).is_dir() else page.with_name(f"{page.name}.md")


def document_pages() -> dict[PurePosixPath, PurePosixPath]:
    """Return the pages made of documents: path in the site -> path in the repository."""
    names = [path.relative_to(ROOT).as_posix() for path in (ROOT / DOCUMENTS).rglob("*.md")]
    return {site_path(path): path for path in map(PurePosixPath, sorted([*names, *ROOT_DOCUMENTS]))}
