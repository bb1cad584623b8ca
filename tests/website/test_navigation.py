"""The navigation names every page once, and every document can be reached from another one."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import pytest

from website.links import is_local, links_of, replace_links, site_link, target_of
from website.navigation import as_toml, navigation, pages_in
from website.pages import linked_sources
from website.repository import ROOT, document_pages, source_page

PAGES = document_pages()


def test_every_document_is_in_the_navigation_once() -> None:
    named = Counter(pages_in(navigation()))
    assert sorted(set(map(str, PAGES)) - set(named)) == [], "add these pages to website/navigation.toml"
    assert [page for page, count in named.items() if count > 1] == []


def test_the_navigation_names_only_pages() -> None:
    sources = {source_page(source) for source in linked_sources(list(PAGES.values()))}
    assert set(pages_in(navigation())) <= {str(page) for page in {*PAGES, *sources}}


def test_every_document_is_linked_from_another() -> None:
    targets = {
        target_of(link, reader)
        for reader in PAGES.values()
        for link in links_of((ROOT / reader).read_text())
        if is_local(link) and target_of(link, reader) != reader
    }
    folders = {PurePosixPath("docs/decisions/README.md")} if PurePosixPath("docs/decisions") in targets else set()
    assert sorted(map(str, set(PAGES.values()) - targets - folders)) == []


def test_the_navigation_is_written_as_toml() -> None:
    assert as_toml([{"Say “hi”": ["a.md", {'"B"': "b.md"}]}]) == '[{ "Say “hi”" = ["a.md", { "\\"B\\"" = "b.md" }] }]'


@pytest.mark.parametrize(
    ("document", "link", "expected"),
    [
        ("docs/tasks.md", "workers.md#slots", "workers.md#slots"),
        ("docs/tasks.md", "#names", "#names"),
        ("docs/tasks.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("docs/tasks.md", "../SECURITY.md", "security.md"),
        ("docs/tasks.md", "../examples/flows.py", "source/examples/flows.py.md"),
        ("docs/tasks.md", "../src/windlass/core/", "source/src/windlass/core/index.md"),
        ("docs/tasks.md", "decisions/", "decisions/index.md"),
        ("docs/tasks.md", "images/flow-dark.png", "images/flow-dark.png"),
        ("docs/decisions/0001-one-packed-record.md", "../tasks.md", "../tasks.md"),
        ("docs/decisions/0001-one-packed-record.md", "README.md", "index.md"),
        ("ARCHITECTURE.md", "docs/decisions/README.md#security", "decisions/index.md#security"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(document: str, link: str, expected: str) -> None:
    assert site_link(link, PurePosixPath(document)) == expected


def test_links_are_found_outside_of_code() -> None:
    text = """[a](a.md) and [`b`](b.md) but not `[c](c.md)`
![d](d.png) <img alt="e" src="e.png"> <source srcset="f.png"> <a href="g.md">
[h]: h.md

```
[i](i.md)
```
[j](j.md)
"""
    assert list(links_of(text)) == ["a.md", "b.md", "d.png", "e.png", "f.png", "g.md", "h.md", "j.md"]
    assert replace_links(text, lambda link: link) == text
