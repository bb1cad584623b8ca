"""Limit operations over HTTP."""

from __future__ import annotations

from windlass.core.limits.limit import Level, Limit, LimitState, Matcher
from windlass.store.operation import Operation
from windlass.wire.limits import LimitMatcherShape, LimitShape, LimitsShape, LimitStateShape, MatchedShape

from .facet import RemoteFacet
from .request import ApiRequest, get, quote_segment
from .translation import copy_fields


class RemoteLimitOperations(RemoteFacet):
    def limit(self, limit: Limit) -> Operation[int]:
        super().limit(limit)
        fields = {name: getattr(limit, name) for name in LimitShape.__struct_fields__ if name != "matches"}
        body = LimitShape(matches=copy_fields(limit.matches, LimitMatcherShape), **fields)
        request = ApiRequest(
            method="PUT", path=f"/limits/{quote_segment(limit.name)}", response_type=MatchedShape, body=body
        )
        return self._single(request, lambda reply: reply.changed)

    def unlimit(self, name: str) -> Operation[int]:
        super().unlimit(name)
        request = ApiRequest(method="DELETE", path=f"/limits/{quote_segment(name)}", response_type=MatchedShape)
        return self._single(request, lambda reply: reply.changed)

    def limits(self) -> Operation[list[LimitState]]:
        return self._single(get("/limits", LimitsShape), lambda reply: [_limit_state(shape) for shape in reply.limits])


def _limit_state(shape: LimitStateShape) -> LimitState:
    fields = {name: getattr(shape, name) for name in Limit.__struct_fields__ if name != "matches"}
    limit = Limit(matches=copy_fields(shape.matches, Matcher), **fields)
    return LimitState(limit=limit, levels=[copy_fields(level, Level) for level in shape.levels])
