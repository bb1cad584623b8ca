"""Routes for operators, outside of any dialect: metrics for Prometheus, and the API document as JSON and as a page.

Health and readiness are in web/app/health.py."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from windlass.web.app.app_state import AppState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Route, Routes
from windlass.web.docs.docs_page import render_docs_page
from windlass.web.docs.openapi import build_document, encode_below
from windlass.web.listener.messages import Response
from windlass.web.metrics.exposition import CONTENT_TYPE
from windlass.web.metrics.scrape import scrape
from windlass.wire.encoding import JSON

from .examples import EXAMPLES

routes = Routes(tag="Operating")

HTML, CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"
_BASES_MAX = 8  # paths below which the same application is served
_PAGE_HEADERS = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
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


def _make_page(body: bytes) -> _CachedPage:
    return _CachedPage(body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')


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
            self._by_base[base] = _make_page(encode_below(self._document, base))
        return self._by_base[base]

    @cached_property
    def docs(self) -> _CachedPage:
        others = [route.path for route in self._routes if route.path.endswith("/openapi.json") and not route.is_listed]
        return _make_page(render_docs_page(self._document, others))

    @cached_property
    def css(self) -> _CachedPage:
        return _make_page(resources.files("windlass.web.docs").joinpath("docs.css").read_bytes())


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
    context: RequestContext[None, None], page: _CachedPage, media: str, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """Return a page, or 304 if the client has this version."""
    known = [tag.strip().removeprefix("W/") for tag in context.request.head.headers.get("if-none-match", "").split(",")]
    headers = (("ETag", page.tag), ("Cache-Control", "no-cache"), *headers)
    if page.tag in known or "*" in known:
        return Response(304, b"", headers)
    return Response(200, page.body, headers, media)


_PUBLIC: dict[str, Any] = {"roles": None, "other_responses": {304: None}}


@routes.get("/openapi.json", response_media=JSON, response=dict[str, Any], **_PUBLIC)
async def openapi(context: RequestContext[None, None]) -> Response:
    """The API as an OpenAPI 3.1 document.

    Built from the routes of this server. It needs no token, because it contains no data of the queues."""
    return _answer_page(context, (await _documents(context.state)).openapi(context.request.head.base), JSON)


@routes.get("/docs", response_media=HTML, **_PUBLIC)
async def docs(context: RequestContext[None, None]) -> Response:
    """The API as a page, built from the same document."""
    return _answer_page(context, (await _documents(context.state)).docs, HTML, _PAGE_HEADERS)


@routes.get("/docs.css", response_media=CSS, is_listed=False, **_PUBLIC)
async def docs_css(context: RequestContext[None, None]) -> Response:
    """The style sheet of the page."""
    return _answer_page(context, (await _documents(context.state)).css, CSS, _PAGE_HEADERS)
