"""What those who run a server ask it, outside of any dialect: figures for Prometheus, and the document of the API, for
programs and for people. Whether it is alive and ready is told by web/app/health.py."""

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
from windlass.web.app.encoding import JSON
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READS, Route, Routes
from windlass.web.docs.docs_page import docs_page
from windlass.web.docs.openapi import document
from windlass.web.listener.messages import Response
from windlass.web.metrics.exposition import CONTENT_TYPE
from windlass.web.metrics.scrape import scrape

from .examples import EXAMPLES

routes = Routes(tag="Operating")

HTML, CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"
_PAGE_HEADERS = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


@routes.get("/metrics", roles=READS, media=CONTENT_TYPE)
async def metrics(context: RequestContext[None, None]) -> Response:
    """Figures for Prometheus, in its text format.

    Per queue: depth, oldest age, waiting takers, and what happened in the last full minute; the engine's round trip;
    this process's answers by route and status, their durations, connections, memory. A token for some queues sees
    only these."""
    return Response(200, await scrape(context.state, context.who), (("Cache-Control", "no-store"),), CONTENT_TYPE)


class _Page(msgspec.Struct, frozen=True):
    body: bytes
    tag: str


def _page(body: bytes) -> _Page:
    return _Page(body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')


class _Documents:
    """Made when somebody asks for the first time."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    def make(self) -> None:
        _ = self.openapi, self.docs, self.css

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(self._routes, EXAMPLES)

    @cached_property
    def openapi(self) -> _Page:
        return _page(msgspec.json.encode(self._document))

    @cached_property
    def docs(self) -> _Page:
        others = [route.path for route in self._routes if route.path.endswith("/openapi.json") and not route.is_listed]
        return _page(docs_page(self._document, others))

    @cached_property
    def css(self) -> _Page:
        return _page(resources.files("windlass.web.docs").joinpath("docs.css").read_bytes())


_made: WeakKeyDictionary[AppState, _Documents] = WeakKeyDictionary()


async def _documents(state: AppState) -> _Documents:
    """Made beside the event loop: it takes some tenths of a second."""
    found = _made.get(state)
    if found is None:
        found = _Documents(state.routes)
        await asyncio.to_thread(found.make)
        _made[state] = found
    return found


def _answered(
    context: RequestContext[None, None], page: _Page, media: str, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """Whoever has it already is told so."""
    known = [tag.strip().removeprefix("W/") for tag in context.request.head.headers.get("if-none-match", "").split(",")]
    headers = (("ETag", page.tag), ("Cache-Control", "no-cache"), *headers)
    if page.tag in known or "*" in known:
        return Response(304, b"", headers)
    return Response(200, page.body, headers, media)


_PUBLIC: dict[str, Any] = {"roles": None, "also": {304: None}}


@routes.get("/openapi.json", media=JSON, gives=dict[str, Any], **_PUBLIC)
async def openapi(context: RequestContext[None, None]) -> Response:
    """The API as an OpenAPI 3.1 document.

    Made from the routes that are served. It needs no token: it tells nothing of what is queued."""
    return _answered(context, (await _documents(context.state)).openapi, JSON)


@routes.get("/docs", media=HTML, **_PUBLIC)
async def docs(context: RequestContext[None, None]) -> Response:
    """The API as a page to read, made from the same document."""
    return _answered(context, (await _documents(context.state)).docs, HTML, _PAGE_HEADERS)


@routes.get("/docs.css", media=CSS, is_listed=False, **_PUBLIC)
async def docs_css(context: RequestContext[None, None]) -> Response:
    """How that page looks."""
    return _answered(context, (await _documents(context.state)).css, CSS, _PAGE_HEADERS)
