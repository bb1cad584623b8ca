"""Operations of saved filters. The service itself checks no tokens; front ends show a filter that names a queue only to
tokens for this queue."""

from __future__ import annotations

from windlass.core.errors import IdConflict, Refusal, UnknownFilter
from windlass.core.filters.saved_filter import SavedFilter, check_filter_name, check_saved_filter
from windlass.service.facet import Facet, send
from windlass.store.commands.admin import filters
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation


class FilterOperations(Facet):
    def filters(self) -> Operation[list[SavedFilter]]:
        """Return the saved filters, by name."""
        return Operation(self.store, lambda: send(filters.filters()))

    def save_filter(self, saved: SavedFilter, *, former: str = "") -> Operation[None]:
        """Save a filter under its name. A filter of this name is replaced. `former`: the name that the filter had until
        now; it is renamed, and never replaces another filter."""
        check_saved_filter(saved)
        if former != "":
            check_filter_name(former)
        return Operation(self.store, lambda: self._save_filter_flow(saved, former))

    def _save_filter_flow(self, saved: SavedFilter, former: str) -> Flow[None]:
        answer = yield filters.save_filter(saved, former)
        if isinstance(answer, UnknownFilter):
            raise UnknownFilter(f"There is no saved filter {former!r}.")
        if isinstance(answer, IdConflict):
            raise IdConflict(f"Another saved filter is named {saved.name!r}; choose another name, or remove it first.")
        if isinstance(answer, Refusal):
            raise answer

    def remove_filter(self, name: str) -> Operation[None]:
        """Remove a saved filter."""
        check_filter_name(name)
        return Operation(self.store, lambda: self._remove_filter_flow(name))

    def _remove_filter_flow(self, name: str) -> Flow[None]:
        answer = yield filters.remove_filter(name)
        if isinstance(answer, UnknownFilter):
            raise UnknownFilter(f"There is no saved filter {name!r}.")
