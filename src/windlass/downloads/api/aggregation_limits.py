"""PUT /aggregations: change the limit or the proxy of an aggregation while its downloads run."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from windlass.core import errors
from windlass.core.errors import BadInput, TooLarge, UnknownLimit, UnknownLimitKey
from windlass.core.limits.limit import Aggregation
from windlass.downloads.worker.order import AGGREGATION_LIMIT, QUEUE
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS

from .aggregation import LIMIT
from .order_form import Number, Text, limit_of, proxy_of
from .refusals import routes_of

routes = routes_of("Downloads")


class AggregationForm(msgspec.Struct, frozen=True, kw_only=True):
    """Change of an aggregation. A field that is not given stays as it is."""

    aggr_limit: Annotated[Number, Meta(description="Maximum of concurrent downloads.")] = UNSET
    aggr_proxy: Annotated[Text, Meta(description="Proxy of the next downloads; empty: none.")] = UNSET


class AggregationState(msgspec.Struct, frozen=True):
    aggr_id: str
    aggr_limit: int
    aggr_proxy: str
    queued: int
    scheduled: Annotated[int, Meta(description="Downloads that wait for their next attempt.")]
    running: int


@routes.put(
    "/aggregations/{name}", operation="set_aggregation", roles=ADMINS, body=AggregationForm,
    body_media="application/json", response=AggregationState, response_media="application/json", is_audited=True,
    refuses=(BadInput, TooLarge, NotFound, errors.EngineError),
)  # fmt: skip
async def set_aggregation(context: RequestContext[AggregationForm, None]) -> AggregationState:
    """Change the limit or the proxy of an aggregation.

    A higher limit starts waiting downloads at once. Under a lower one, running downloads continue to their end. The
    aggregation must have downloads that have not ended."""
    context.audit_target = context.path["name"]
    context.check_queue(QUEUE)
    form = context.body
    limit = None if form.aggr_limit is UNSET else limit_of(form.aggr_limit)
    proxy = None if form.aggr_proxy is UNSET else proxy_of(form.aggr_proxy)
    if limit is None and proxy is None:
        raise BadInput("Give aggr_limit or aggr_proxy, or both.")
    # The proxy is left out: it may contain a password.
    context.audit_detail = "" if limit is None else f"aggr_limit={limit}"
    try:
        found = await context.service.set_cap(LIMIT.name, context.path["name"], running=limit, note=proxy)
    except (UnknownLimit, UnknownLimitKey) as error:
        raise NotFound("There is no aggregation of this name with downloads that have not ended.") from error
    return _state_of(found)


def _state_of(found: Aggregation) -> AggregationState:
    return AggregationState(
        aggr_id=found.key,
        aggr_limit=AGGREGATION_LIMIT if found.cap is None else found.cap,
        aggr_proxy=found.note,
        queued=found.queued,
        scheduled=found.scheduled,
        running=found.running,
    )
