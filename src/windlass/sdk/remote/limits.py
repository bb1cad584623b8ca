"""Limit operations over HTTP."""

from __future__ import annotations

from windlass.core.limits.limit import Aggregation, Level, Limit, LimitState
from windlass.store.operation import Operation
from windlass.wire.limits import (
    AggregationShape,
    LimitsShape,
    LimitStateShape,
    MatchedShape,
    SetCapShape,
    limit_shape,
    matcher_of,
)

from .facet import RemoteFacet
from .request import ApiRequest, get, quote_segment
from .translation import copy_fields


class RemoteLimitOperations(RemoteFacet):
    def limit(self, limit: Limit) -> Operation[int]:
        super().limit(limit)
        request = ApiRequest(
            method="PUT",
            path=f"/limits/{quote_segment(limit.name)}",
            response_type=MatchedShape,
            body=limit_shape(limit),
        )
        return self._single(request, lambda reply: reply.changed)

    def unlimit(self, name: str) -> Operation[int]:
        super().unlimit(name)
        request = ApiRequest(method="DELETE", path=f"/limits/{quote_segment(name)}", response_type=MatchedShape)
        return self._single(request, lambda reply: reply.changed)

    def set_cap(
        self, limit: str, key: str, *, running: int | None = None, note: str | None = None
    ) -> Operation[Aggregation]:
        super().set_cap(limit, key, running=running, note=note)
        request = ApiRequest(
            method="PUT",
            path=f"/limits/{quote_segment(limit)}/cap",
            response_type=AggregationShape,
            body=SetCapShape(key=key, running=running, note=note),
        )
        return self._single(request, lambda reply: copy_fields(reply, Aggregation))

    def limits(self) -> Operation[list[LimitState]]:
        return self._single(get("/limits", LimitsShape), lambda reply: [_limit_state(shape) for shape in reply.limits])


def _limit_state(shape: LimitStateShape) -> LimitState:
    fields = {name: getattr(shape, name) for name in Limit.__struct_fields__ if name != "matches"}
    limit = Limit(matches=matcher_of(shape.matches), **fields)
    return LimitState(limit=limit, levels=[copy_fields(level, Level) for level in shape.levels])
