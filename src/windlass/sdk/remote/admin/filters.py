"""Operations of saved filters over HTTP."""

from __future__ import annotations

from typing import cast

from windlass.core.filters.saved_filter import SavedFilter
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import ApiRequest, get, quote_segment
from windlass.store.operation import Operation
from windlass.wire.admin import FilterPage, SavedFilterShape, SavedFiltersShape, SaveFilterShape


class RemoteFilterOperations(RemoteFacet):
    def filters(self) -> Operation[list[SavedFilter]]:
        return self._single(
            get("/filters", SavedFiltersShape),
            lambda reply: [
                SavedFilter(name=shape.name, page=shape.page, fields=shape.fields) for shape in reply.filters
            ],
        )

    def save_filter(self, saved: SavedFilter, *, former: str = "") -> Operation[None]:
        super().save_filter(saved, former=former)
        request = ApiRequest(
            method="PUT",
            path=f"/filters/{quote_segment(saved.name)}",
            response_type=SavedFilterShape,
            body=SaveFilterShape(page=cast(FilterPage, saved.page), fields=saved.fields, former=former),
        )
        return self._single(request, lambda reply: None)

    def remove_filter(self, name: str) -> Operation[None]:
        super().remove_filter(name)
        request = ApiRequest(method="DELETE", path=f"/filters/{quote_segment(name)}", response_type=None)
        return self._single(request, lambda reply: None)
