"""Saved filter: a name for the filters of a page. The whole team shares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import BadInput, TooLarge
from windlass.core.validation.values import check_instance, check_new_name, check_text

FILTERS_MAX = 100  # pages read all of them at once
FILTER_NAME_MAX = 64
FIELD_MAX = 255  # bytes of a value
FIELDS_MAX = 1024  # bytes of all values
# Pages whose filters can be saved, and the fields of each. A position in the list is not a filter.
PAGES: Mapping[str, tuple[str, ...]] = {
    "jobs": ("state", "queue", "name", "tag", "where", "error", "shape", "since", "before", "text", "order"),
    "flows": ("state", "name"),
    "failures": ("queue",),
    "signals": ("queue", "signal"),
    "audit": ("q",),
}
ADMIN_PAGES = frozenset({"audit"})


class SavedFilter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    page: str  # one of PAGES
    fields: dict[str, str]  # of the page's address; none is empty

    @property
    def queue(self) -> str:
        """Queue that the filter names. Empty: it names none, and every reader may see it."""
        return self.fields.get("queue", "")

    def is_visible_to(self, principal: Principal) -> bool:
        """Tell whether a principal that may read may see this filter: its name and its fields may name its queue."""
        if self.page in ADMIN_PAGES and not principal.may(frozenset({Role.ADMIN})):
            return False
        return not self.queue or principal.may_use(self.queue)


def check_filter_name(name: Any) -> None:
    check_text("name", name, FILTER_NAME_MAX)


def check_saved_filter(saved: Any) -> None:
    check_instance("A filter to save", saved, SavedFilter)
    check_new_name("name", saved.name, FILTER_NAME_MAX)
    if type(saved.page) is not str or saved.page not in PAGES:
        raise BadInput(f"The filters of the page {saved.page!r} cannot be saved; use one of {', '.join(PAGES)}.")
    if type(saved.fields) is not dict or not saved.fields:
        raise BadInput("A filter needs at least one field, as a dictionary of texts.")
    _check_fields(saved.page, saved.fields)


def _check_fields(page: str, fields: dict[Any, Any]) -> None:
    unknown = [field for field in fields if field not in PAGES[page]]
    if unknown:
        raise BadInput(f"The page {page!r} has no filter {unknown[0]!r}; it has {', '.join(PAGES[page])}.")
    for field, value in fields.items():
        check_text(field, value, FIELD_MAX)
    size = sum(len(value.encode()) for value in fields.values())
    if size > FIELDS_MAX:
        raise TooLarge(f"The filters have {size:,} bytes; at most {FIELDS_MAX:,} are allowed.")
