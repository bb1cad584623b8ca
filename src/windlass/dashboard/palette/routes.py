"""Route of the palette: the entries for a typed text, as JSON."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS
from windlass.dashboard.routes import engine_timeout
from windlass.dashboard.views.icons import outline
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Routes
from windlass.web.listener.messages import Response
from windlass.wire.encoding import JSON

from .entries import ShownEntry, show
from .search import search

QUERY_MAX = 200  # characters

routes = Routes(tag="Dashboard")


class PaletteQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=QUERY_MAX)] = ""


class PaletteAnswer(msgspec.Struct, frozen=True):
    entries: list[ShownEntry]


@routes.get("/palette", roles=READERS, query=PaletteQuery, response_media=JSON, is_listed=False)
async def palette(context: RequestContext[None, PaletteQuery]) -> Response:
    """Find pages, things and actions by a few typed words."""
    page: PageContext[Any] = PageContext(context.state, context.request.head, context)
    async with engine_timeout():
        found = await search(page, context.query.q)
    answer = PaletteAnswer([show(entry, outline(entry.icon)) for entry in found])
    return Response(200, msgspec.json.encode(answer), HEADERS, JSON)
