"""Saved filters on the pages whose filters can be saved: the list of a page, and the filters in its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.filters.saved_filter import PAGES, SavedFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached


class ShownFilter(msgspec.Struct, frozen=True):
    saved: SavedFilter
    href: str
    is_current: bool  # the page shows just this filter


class FilterBar(msgspec.Struct, frozen=True):
    """Saved filters of one page, and its current filters as they would be saved."""

    page: str
    current: dict[str, str]
    shown: list[ShownFilter]

    @property
    def can_be_saved(self) -> bool:
        return bool(self.current) and not any(shown.is_current for shown in self.shown)

    @property
    def selected(self) -> ShownFilter | None:
        return next((shown for shown in self.shown if shown.is_current), None)


async def read_filters(page: PageContext[Any]) -> list[SavedFilter]:
    """Return the saved filters that the principal may see. One call to the engine, shared by all views."""
    found = await cached(page.context.state, "filters", lambda: _all_filters(page))
    return [saved for saved in found if saved.is_visible_to(page.principal)]


async def _all_filters(page: PageContext[Any]) -> list[SavedFilter]:
    return await page.service.filters()


async def filter_bar(page: PageContext[Any], name: str) -> FilterBar:
    """Return the saved filters of the page `name`, which is a key of PAGES and the first part of its path."""
    current = current_fields(name, msgspec.structs.asdict(page.query))
    shown = [
        ShownFilter(saved, link_of(page, saved), saved.fields == current)
        for saved in await read_filters(page)
        if saved.page == name
    ]
    return FilterBar(name, current, shown)


def current_fields(name: str, query: Mapping[str, Any]) -> dict[str, str]:
    """Return the filters in the query of a page. A position in the list is not a filter."""
    return {field: str(query[field]).strip() for field in PAGES[name] if str(query.get(field, "")).strip()}


def link_of(page: PageContext[Any], saved: SavedFilter) -> str:
    return page.link(saved.page, **saved.fields)
