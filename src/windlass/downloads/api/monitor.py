"""GET /hb, /stats and /dashboard/aggregations: availability, counters and waiting jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.core import errors
from windlass.core.errors import UnknownLimit
from windlass.core.limits.limit import Aggregation
from windlass.downloads.worker import QUEUE
from windlass.service import Service
from windlass.service.aggregations import COMPONENT_MAX
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Answer
from windlass.web.listener.messages import Response
from windlass.wire.problems import HttpRefusal

from .aggregation import LIMIT
from .refusals import routes_of

routes = routes_of("Downloads")

_ANY_ORIGIN = (("Access-Control-Allow-Origin", "*"),)
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
PAGE = 500


class OutOfService(HttpRefusal):
    code = "out_of_service"
    status = 503
    sentence = "This server is out of service."
    headers = (("Retry-After", "5"),)


class WaitingJobs(msgspec.Struct, frozen=True):
    name: str
    size: int


@routes.get("/hb", operation="heartbeat", roles=None, response_media=_TEXT, refuses=(OutOfService,))
async def heartbeat(context: RequestContext[None, None]) -> Response:
    """Tell load balancers whether to send requests to this server.

    The answer is 503 while the file that WINDLASS_HEARTBEAT_FILE names exists."""
    file = context.state.settings.heartbeat_file
    if file and await _exists(file):
        raise OutOfService
    return Response(200, b"OK", content_type=_TEXT)


async def _exists(file: str) -> bool:
    return await asyncio.to_thread(Path(file).exists)


@routes.get(
    "/stats/{name}", operation="stats", roles=READERS, response=dict[str, int], response_media=_JSON,
    refuses=(NotFound, errors.BadInput, errors.EngineError),
)  # fmt: skip
async def stats(context: RequestContext[None, None]) -> Answer:
    """Return the counters of the processors or the notifiers.

    They are the sum over all instances that published counters within the last ten seconds; 404 if there is none."""
    context.check_queue(QUEUE)
    component = context.path["name"]
    is_known = len(component.encode()) <= COMPONENT_MAX and component.isprintable()
    found = await context.service.stats_of(component) if is_known else {}
    if not found:
        raise NotFound("No component of this name has published counters within the last ten seconds.")
    return Answer(sum_counters(found), headers=_ANY_ORIGIN)


def sum_counters(found: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counters in found.values():
        total.update(counters)
    if "alive" in total:
        total["alive"] = 1
    return dict(sorted(total.items()))


@routes.get(
    "/dashboard/aggregations", operation="waiting_aggregations", roles=READERS, response=list[WaitingJobs],
    response_media=_JSON, refuses=(errors.EngineError,),
)  # fmt: skip
async def waiting_aggregations(context: RequestContext[None, None]) -> Answer:
    """Return aggregations with waiting jobs, and the number of these jobs.

    Jobs that wait for their next attempt count; running jobs do not."""
    context.check_queue(QUEUE)
    found = [
        WaitingJobs(f"jobs:{aggregation.key}", aggregation.queued + aggregation.scheduled)
        for aggregation in await _list_aggregations(context.service)
    ]
    return Answer([waiting for waiting in found if waiting.size], headers=_ANY_ORIGIN)


async def _list_aggregations(service: Service) -> list[Aggregation]:
    found: list[Aggregation] = []
    cursor = ""
    try:
        while True:
            page = await service.aggregations(LIMIT.name, most=PAGE, cursor=cursor)
            found += page.aggregations
            cursor = page.cursor
            if not cursor:
                return found
    except UnknownLimit:  # no download was ever requested
        return found
