"""Filter of a taker, in words."""

from __future__ import annotations

from windlass.core.operations import Filter
from windlass.core.text.humanize import quote_text


def describe_filter(wants: Filter) -> str:
    """Describe a taker's filter in words."""
    parts = []
    if wants.only:
        parts.append("only " + ", ".join(quote_text(name) for name in wants.only))
    if wants.all_but:
        parts.append("all but " + ", ".join(quote_text(name) for name in wants.all_but))
    if wants.glob:
        parts.append(f"names like {quote_text(wants.glob)}")
    if wants.priority is not None:
        parts.append(f"priority {wants.priority}")
    if not wants.steps and not parts:
        return "jobs without durable steps"
    return " with ".join(parts)
