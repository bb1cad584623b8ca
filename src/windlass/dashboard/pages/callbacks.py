"""Pending callbacks, and callbacks whose delivery was given up."""

from __future__ import annotations

import asyncio
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.ids import format_id
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes

routes = DashboardRoutes()

PER_PAGE = 50


class CallbacksQuery(msgspec.Struct, frozen=True, kw_only=True):
    state: Literal["owed", "given-up"] = "owed"
    cursor: str = ""


class CallbackRow(msgspec.Struct, frozen=True):
    pending: PendingCallback

    @property
    def job(self) -> str:
        return format_id(self.pending.job.id)

    @property
    def target(self) -> str:
        """Destination without parts that may be secret: the query and a password."""
        callback = self.pending.callback
        if not callback.url:
            return f"{callback.type}: {callback.destination}"
        try:
            parts = urlsplit(callback.url)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{'?…' if parts.query else ''}"
        except ValueError:
            return callback.url


class CallbacksView(msgspec.Struct, frozen=True):
    now_ms: int
    state: str
    rows: list[CallbackRow]
    cursor: str
    following: str


@routes.page("/callbacks", "callbacks.html", section="callbacks", query=CallbacksQuery)
async def callbacks(page: PageContext[CallbacksQuery]) -> CallbacksView:
    """List pending or given-up callbacks."""
    query = page.query
    operation = page.service.callbacks(given_up=query.state == "given-up", most=PER_PAGE, cursor=query.cursor)
    now_ms, result = await asyncio.gather(page.service.now(), operation)
    page.now_ms = now_ms
    rows = [CallbackRow(pending) for pending in result.callbacks if page.may_use(pending.job.queue)]
    return CallbacksView(now_ms, query.state, rows, query.cursor, result.cursor)
