"""Saved filters as a token may see and change them. The API and the dashboard share these checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Forbidden
from windlass.core.filters.saved_filter import SavedFilter

from .request_context import RequestContext


async def visible_filters(context: RequestContext[Any, Any]) -> list[SavedFilter]:
    """Return the saved filters that the token may see. One call to the engine."""
    return [saved for saved in await context.service.filters() if saved.is_visible_to(context.principal)]


async def save_visible_filter(context: RequestContext[Any, Any], saved: SavedFilter, former: str = "") -> None:
    """Save a filter. Raise Forbidden if it, or the filter that it replaces or renames, is not for this token."""
    context.audit_target = saved.name
    context.audit_detail = " ".join((saved.page, *(f"{field}={value}" for field, value in saved.fields.items())))
    if former and former != saved.name:
        context.audit_detail = f"renamed from {former}: {context.audit_detail}"
    if not saved.is_visible_to(context.principal):
        raise _refusal(context, f"the filter {saved.name!r}")
    await _check_visible(context, (saved.name, former))
    await context.service.save_filter(saved, former=former)


async def remove_visible_filter(context: RequestContext[Any, Any], name: str) -> None:
    """Remove a filter. Raise Forbidden if it is not for this token."""
    context.audit_target = name
    await _check_visible(context, (name,))
    await context.service.remove_filter(name)


async def _check_visible(context: RequestContext[Any, Any], names: Sequence[str]) -> None:
    for saved in await context.service.filters():
        if saved.name in names and not saved.is_visible_to(context.principal):
            raise _refusal(context, f"the filter {saved.name!r}")


def _refusal(context: RequestContext[Any, Any], what: str) -> Forbidden:
    return Forbidden(
        f"The token {context.principal.name!r} may not use {what}: it is about a queue or a page that this token may "
        "not see. Use another token, or another name."
    )
