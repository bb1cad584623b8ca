"""Aggregation: a key of one limit of the engine, with the cap and the proxy of its first job."""

from __future__ import annotations

import hashlib

from windlass.core.errors import BadInput, TooLarge, UnknownLimit
from windlass.core.job import Cap
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.validation.bounds import LANE_MAX
from windlass.core.validation.values import check_new_name
from windlass.downloads.worker.order import AGGREGATION_LIMIT, AGGREGATIONS, QUEUE
from windlass.service import Service

LIMIT = Limit(name=AGGREGATIONS, matches=Matcher(queue=QUEUE), running=AGGREGATION_LIMIT, key="aggr_id", own_caps=True)


async def prepare(service: Service) -> None:
    """Create the limit, and turn on fair share: a million jobs of one aggregation do not block ten jobs of another."""
    if all(state.limit.name != LIMIT.name for state in await service.limits()):
        await service.limit(LIMIT)
    if not (await service.configuration(QUEUE)).fair_share:
        await service.configure(QUEUE, {"fair_share": True})


def cap_of(limit: int, proxy: str) -> Cap:
    return Cap(limit=LIMIT.name, running=limit, note=proxy)


async def proxy_of(service: Service, aggregation: str) -> str:
    """Return the proxy of an aggregation; empty if it has none or no longer exists."""
    try:
        return (await service.aggregation(LIMIT.name, aggregation)).note
    except UnknownLimit:
        return ""


def lane_of(aggregation: str) -> str:
    """Return the lane of an aggregation: its name, or a digest if the name is no valid lane."""
    try:
        check_new_name("lane", aggregation, LANE_MAX)
    except (BadInput, TooLarge):
        return "#" + hashlib.blake2b(aggregation.encode(), digest_size=12).hexdigest()
    return aggregation
