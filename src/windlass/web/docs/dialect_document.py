"""OpenAPI document of one dialect, generated from its routes and served below its prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from windlass.web.app.app_state import AppState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import DocumentBuilder, Route, Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import JSON

from .openapi import DocumentInfo, Examples, build_document, encode_below

YAML = "application/yaml"
TAG = "About"  # of the routes that serve a document; they are not part of it


def build_dialect_document(served: Iterable[Route], examples: Examples, about: DocumentInfo) -> dict[str, Any]:
    """Describe the routes below `about.base` with relative paths, including those that the main document omits. Paths
    that end in a slash only refuse an empty id and are left out."""
    own = [
        msgspec.structs.replace(route, is_listed=True)
        for route in served
        if route.path.startswith(f"{about.base}/") and route.tag != TAG and not route.path.endswith("/")
    ]
    return build_document(own, examples, about)


def serve_document(routes: Routes, name: str, build: DocumentBuilder) -> None:
    """Add GET openapi.json and openapi.yaml to the routes of a dialect."""
    documents: WeakKeyDictionary[AppState, dict[str, Any]] = WeakKeyDictionary()

    async def encoded(context: RequestContext[None, None]) -> bytes:
        """Return the document. The first request builds it in a thread, because that takes tenths of a second."""
        state = context.state
        if state not in documents:
            served = list(state.routes)
            documents[state] = await asyncio.to_thread(build, served)
        return encode_below(documents[state], context.request.head.base)

    @routes.get(
        "/openapi.json", operation=f"{name}_openapi", roles=None, response_media=JSON, is_listed=False,
        builds_document=build,
    )  # fmt: skip
    async def openapi_json(context: RequestContext[None, None]) -> Response:
        """Return this API as an OpenAPI 3.1 document."""
        return Response(200, await encoded(context), (("Cache-Control", "no-cache"),), JSON)

    @routes.get("/openapi.yaml", operation=f"{name}_openapi_yaml", roles=None, response_media=YAML, is_listed=False)
    async def openapi_yaml(context: RequestContext[None, None]) -> Response:
        """Return the same document as YAML: every JSON document is valid YAML."""
        return Response(200, await encoded(context), (("Cache-Control", "no-cache"),), YAML)
