"""Reference of the API as pages: an overview, a page for each subject of the API, its shapes, and a page for each
dialect. They are made from the OpenAPI documents. Every link is relative, so that they can be served below any path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

import msgspec

from .operations import Json, SectionRenderer, anchor, method_badge, operations_of, prose

MANY = ": up to 1,000 jobs"
SHAPES = "shapes"
_ROOT = "docs/"  # of the pages, seen from the overview
_INTRODUCTION = """\
<p>Every operation has its page, with an example for curl; <em class="try-hint">Try it</em> sends a request from here.
<code>windlass serve</code> starts a server that answers this:</p>
<pre>curl localhost:8080/api/v1/jobs -H 'Content-Type: application/json' -d '{"queue":"mail","name":"send"}'</pre>
<p>If the server uses tokens, send yours: <code>-H 'Authorization: Bearer wl_…'</code>. Times are milliseconds since
1970, durations are milliseconds. The same reference for programs is <a href="openapi.json">openapi.json</a>.</p>"""
_THEMES = (("light", "Light"), ("dark", "Dark"), ("system", "System"))


class DialectDocument(msgspec.Struct, frozen=True):
    """OpenAPI document of a dialect. `path` is its address, such as /lightjq/openapi.json."""

    path: str
    document: Json

    @property
    def root(self) -> str:
        return self.path.removesuffix("/openapi.json")

    @property
    def slug(self) -> str:
        return slug_of(self.root)

    @property
    def is_served_here(self) -> bool:
        """Whether this server answers the operations. Those of push workers are served by the workers."""
        return str(self.document["servers"][0]["url"]).startswith("/")


class _Frame(msgspec.Struct, frozen=True):
    """Parts that all pages share: the navigation, and whether there is a dashboard to link to."""

    document: Json
    dialects: Sequence[DialectDocument]
    has_dashboard: bool

    def page(
        self, title: str, current: str, content: Iterable[str], entries: Iterable[str], source: str = "openapi.json"
    ) -> bytes:
        """Return a page. `entries`: the operations of the page for its navigation. `source`: address of its document,
        empty if its operations cannot be tried."""
        below, root = (_ROOT, "") if not current else ("", "../")
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{escape(title)}</title><link rel="icon" href="{below}windlass.svg" type="image/svg+xml">',
            f'<script src="{below}theme.js"></script><link rel="stylesheet" href="{below}theme.css">',
            f'<link rel="stylesheet" href="{root}docs.css"><script type="module" src="{below}docs.js"></script></head>',
            f'<body data-document="{root}{escape(source)}">' if source else "<body>",
            '<a class="skip" href="#main">Skip to content</a>',
            *self._side(current, below, root, entries),
            '<main id="main" tabindex="-1">',
            *content,
            "</main></body></html>",
        ]
        return "\n".join(parts).encode(errors="replace")

    def _side(self, current: str, below: str, root: str, entries: Iterable[str]) -> Iterator[str]:
        home = root or "./" if self.has_dashboard else f"{root}docs"
        yield f'<header class="side"><a class="brand" href="{home}"><img src="{below}windlass.svg" alt="" width="26"'
        yield ' height="26"> Windlass</a><nav aria-label="Contents"><ul>'
        yield _entry(f"{root}docs", "Overview", is_current=not current)
        for tag in self.document["tags"]:
            slug = slug_of(tag["name"])
            yield _entry(below + slug, tag["name"], is_current=slug == current, inner=entries)
        yield _entry(below + SHAPES, "Shapes", is_current=current == SHAPES)
        for dialect in self.dialects:
            title = dialect.document["info"]["title"]
            yield _entry(below + dialect.slug, title, is_current=dialect.slug == current, inner=entries)
        buttons = "".join(
            f'<button type="button" data-theme-choice="{theme}" aria-pressed="false">{name}</button>'
            for theme, name in _THEMES
        )
        yield "</ul></nav>"
        yield f'<div class="theme" role="group" aria-label="Theme" data-theme-switch hidden>{buttons}</div></header>'


def render_docs_pages(
    document: Json, dialects: Sequence[DialectDocument] = (), *, has_dashboard: bool = True
) -> Mapping[str, bytes]:
    """Return the pages by the last part of their address. The overview has an empty one."""
    frame = _Frame(document, dialects, has_dashboard)
    title = f"{document['info']['title']} {document['info']['version']}: HTTP API"
    renderer = SectionRenderer(document, SHAPES)
    pages = {"": frame.page(title, "", _overview(document, dialects), ())}
    for tag in document["tags"]:
        name, slug = tag["name"], slug_of(tag["name"])
        found = list(operations_of(document, name))
        content = _subject(name, found, renderer)
        pages[slug] = frame.page(f"{name} · {title}", slug, content, _entries(found))
    pages[SHAPES] = frame.page(f"Shapes · {title}", SHAPES, _shapes(document, renderer, "h1"), ())
    for dialect in dialects:
        found = [
            operation
            for tag in dialect.document.get("tags", ())
            for operation in operations_of(dialect.document, tag["name"])
        ]
        source = dialect.path.lstrip("/") if dialect.is_served_here else ""
        content = _dialect(dialect, found)
        pages[dialect.slug] = frame.page(
            dialect.document["info"]["title"], dialect.slug, content, _entries(found), source
        )
    return pages


def slug_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "other"


def _entry(href: str, title: str, *, is_current: bool, inner: Iterable[str] = ()) -> str:
    mark = ' aria-current="page"' if is_current else ""
    below = f"<ul>{''.join(inner)}</ul>" if is_current else ""
    return f'<li><a href="{escape(href)}"{mark}>{escape(title)}</a>{below if below != "<ul></ul>" else ""}</li>'


def _entries(found: Sequence[tuple[str, str, Json]]) -> Iterator[str]:
    for method, path, operation in found:
        hint = escape(f"{method.upper()} {path}")
        name = anchor("op", operation["operationId"])
        yield f'<li><a href="#{name}" title="{hint}">{escape(_short(operation["summary"]))}</a></li>'


def _short(summary: str) -> str:
    """Shorten a summary to the part before its first comma, colon or semicolon, and mark batch operations."""
    many = ", many" if MANY in summary else ""
    return re.split(r"[:;]|, ", summary)[0] + many


def _overview(document: Json, dialects: Sequence[DialectDocument]) -> Iterator[str]:
    """Yield the overview. Its entries have the anchors of the former single page: docs.js follows them."""
    info = document["info"]
    yield f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield f"<p>{prose(info.get('description', ''))}</p>{_INTRODUCTION}"
    if dialects:
        links = ", ".join(
            f'<a href="{_ROOT}{dialect.slug}">{escape(dialect.document["info"]["title"])}</a> '
            f'(<a href="{escape(dialect.path.lstrip("/"))}">{escape(dialect.path)}</a>)'
            for dialect in dialects
        )
        yield f"<p>Dialects: {links}.</p>"
    for tag in document["tags"]:
        page = _ROOT + slug_of(tag["name"])
        yield f'<h2 id="{anchor("tag", tag["name"])}"><a href="{page}">{escape(tag["name"])}</a></h2><ul class="index">'
        for method, path, operation in operations_of(document, tag["name"]):
            name = anchor("op", operation["operationId"])
            yield f'<li id="{name}"><a href="{page}#{name}">{method_badge(method)}'
            yield f" <span>{escape(operation['summary'])}</span> <code>{escape(path)}</code></a></li>"
        yield "</ul>"
    yield f'<h2 id="shapes"><a href="{_ROOT}{SHAPES}">Shapes</a></h2><ul class="index names">'
    for shape in document["components"]["schemas"]:
        name = anchor("shape", shape)
        yield f'<li id="{name}"><a href="{_ROOT}{SHAPES}#{name}">{escape(shape)}</a></li>'
    yield "</ul>"


def _subject(name: str, found: Sequence[tuple[str, str, Json]], renderer: SectionRenderer) -> Iterator[str]:
    yield f"<h1>{escape(name)}</h1>"
    for method, path, operation in found:
        yield from renderer.operation(method, path, operation)


def _shapes(document: Json, renderer: SectionRenderer, heading: str) -> Iterator[str]:
    yield f"<{heading}>Shapes</{heading}>"
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield from renderer.shape(name, schema)


def _dialect(dialect: DialectDocument, found: Sequence[tuple[str, str, Json]]) -> Iterator[str]:
    document, renderer = (
        dialect.document,
        SectionRenderer(dialect.document, "", dialect.root if dialect.is_served_here else ""),
    )
    yield f"<h1>{escape(document['info']['title'])}</h1><p>{prose(document['info'].get('description', ''))}</p>"
    yield f'<p>The same for programs: <a href="../{escape(dialect.path.lstrip("/"))}">{escape(dialect.path)}</a>.</p>'
    for method, path, operation in found:
        yield from renderer.operation(method, path, operation)
    yield from _shapes(document, renderer, "h2")
