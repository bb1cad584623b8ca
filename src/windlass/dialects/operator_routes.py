"""Routes for operators, outside of any dialect: metrics for Prometheus, and the API document as JSON and as a page.

Health and readiness are in web/app/health.py."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from windlass.web.app.app_state import AppState
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Route, Routes
from windlass.web.docs.docs_page import DialectDocument, render_docs_pages
from windlass.web.docs.openapi import build_document, encode_below
from windlass.web.listener.messages import Response
from windlass.web.metrics.exposition import CONTENT_TYPE
from windlass.web.metrics.scrape import scrape
from windlass.wire.encoding import JSON

from .examples import EXAMPLES

routes = Routes(tag="Operating")

HTML, CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"
_FILES = {  # of the reference, with their folders
    "docs.js": ("docs", "text/javascript; charset=utf-8"),
    "theme.js": ("static", "text/javascript; charset=utf-8"),
    "theme.css": ("static", CSS),
    "windlass.svg": ("static", "image/svg+xml"),
}
_BASES_MAX = 8  # paths below which the same application is served
_PAGE_HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer, browsers would send no origin either
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


@routes.get("/metrics", roles=READERS, response_media=CONTENT_TYPE)
async def metrics(context: RequestContext[None, None]) -> Response:
    """Metrics for Prometheus, in its text format.

    Per queue: depth, oldest age, waiting takers, and counts of the last full minute. For the engine: the round trip.
    For this process: responses by route and status, their durations, connections, memory. A token with queues sees only
    these queues."""
    return Response(200, await scrape(context.state, context.principal), (("Cache-Control", "no-store"),), CONTENT_TYPE)


class _CachedPage(msgspec.Struct, frozen=True):
    body: bytes
    tag: str
    media: str


def _make_page(body: bytes, media: str) -> _CachedPage:
    return _CachedPage(body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"', media)


def _read_file(package: str, name: str) -> bytes:
    return resources.files("windlass.web").joinpath(package, name).read_bytes()


class _ApiDocuments:
    """The API document in its forms, built on the first request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._by_base: dict[str, _CachedPage] = {}

    def build(self) -> None:
        _ = self._document, self.docs, self.css

    @cached_property
    def _document(self) -> dict[str, Any]:
        return build_document(self._routes, EXAMPLES)

    def openapi(self, base: str) -> _CachedPage:
        """Return the document for its path. Few are cached, because a path may contain any text of a client."""
        if base not in self._by_base:
            if len(self._by_base) >= _BASES_MAX:
                self._by_base.clear()
            self._by_base[base] = _make_page(encode_below(self._document, base), JSON)
        return self._by_base[base]

    @cached_property
    def docs(self) -> Mapping[str, _CachedPage]:
        """Return the pages and files of the reference by the last part of their address."""
        dialects = [
            DialectDocument(route.path, route.builds_document(list(self._routes)))
            for route in self._routes
            if route.builds_document is not None
        ]
        has_dashboard = any(route.is_page and route.path == "/" for route in self._routes)
        pages = render_docs_pages(self._document, dialects, has_dashboard=has_dashboard)
        files = {name: _make_page(_read_file(folder, name), media) for name, (folder, media) in _FILES.items()}
        return {**{slug: _make_page(body, HTML) for slug, body in pages.items()}, **files}

    @cached_property
    def css(self) -> _CachedPage:
        return _make_page(_read_file("docs", "docs.css"), CSS)


_documents_by_app: WeakKeyDictionary[AppState, _ApiDocuments] = WeakKeyDictionary()


async def _documents(state: AppState) -> _ApiDocuments:
    """Return the documents. Build them in a thread, because this takes some tenths of a second."""
    documents = _documents_by_app.get(state)
    if documents is None:
        documents = _ApiDocuments(state.routes)
        await asyncio.to_thread(documents.build)
        _documents_by_app[state] = documents
    return documents


def _answer_page(
    context: RequestContext[None, None], page: _CachedPage, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """Return a page, or 304 if the client has this version."""
    known = [tag.strip().removeprefix("W/") for tag in context.request.head.headers.get("if-none-match", "").split(",")]
    headers = (("ETag", page.tag), ("Cache-Control", "no-cache"), *headers)
    if page.tag in known or "*" in known:
        return Response(304, b"", headers)
    return Response(200, page.body, headers, page.media)


_PUBLIC: dict[str, Any] = {"roles": None, "other_responses": {304: None}}


@routes.get("/openapi.json", response_media=JSON, response=dict[str, Any], **_PUBLIC)
async def openapi(context: RequestContext[None, None]) -> Response:
    """The API as an OpenAPI 3.1 document.

    Built from the routes of this server. It needs no token, because it contains no data of the queues."""
    return _answer_page(context, (await _documents(context.state)).openapi(context.request.head.base))


@routes.get("/docs", response_media=HTML, **_PUBLIC)
async def docs(context: RequestContext[None, None]) -> Response:
    """The API as pages, built from the same document: their overview."""
    return _answer_page(context, (await _documents(context.state)).docs[""], _PAGE_HEADERS)


@routes.get("/docs/{file}", response_media="*/*", is_listed=False, **_PUBLIC)
async def docs_part(context: RequestContext[None, None]) -> Response:
    """A page of the reference, or one of its files."""
    found = (await _documents(context.state)).docs.get(context.path["file"])
    if found is None:
        raise NotFound
    return _answer_page(context, found, _PAGE_HEADERS)


@routes.get("/docs.css", response_media=CSS, is_listed=False, **_PUBLIC)
async def docs_css(context: RequestContext[None, None]) -> Response:
    """The style sheet of the page."""
    return _answer_page(context, (await _documents(context.state)).css, _PAGE_HEADERS)
