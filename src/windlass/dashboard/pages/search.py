"""Search: a name of one job or flow redirects to it; other words are searched in queues, tags, names and payloads."""

from __future__ import annotations

import asyncio
import re

import msgspec

from windlass.core.errors import BadInput, Forbidden, TooLarge, UnknownFlow
from windlass.core.ids import parse_id, without_cut_marks
from windlass.core.operations import Listing
from windlass.core.validation.bounds import NAME_MAX, SOUGHT_MAX, TAG_MAX
from windlass.dashboard.forms.filters import LISTS, ListFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import JobSearchResult, search_jobs
from windlass.dashboard.views.named import NOTHING, Named, find_named
from windlass.web.listener.messages import Response

from .flow import read_flow

routes = DashboardRoutes()

SHOWN = 5  # jobs of each list
SCAN_MAX = 1_000  # jobs of each list
_FIELD = re.compile(r"([^\s=:#]+)[=:](.+)")  # order_id=4711 or order_id:4711


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: str = ""


class Hits(msgspec.Struct, frozen=True):
    """First matching jobs of a list. `filter` is the query of the page with all of them."""

    title: str
    list_name: str
    found: JobSearchResult
    filter: dict[str, str]


class SearchView(msgspec.Struct, frozen=True):
    q: str
    named: Named  # several jobs or flows; the page of a single one opens at once
    hits: list[Hits]
    looked_at: int


@routes.page("/search", "search.html", section="jobs", query=SearchQuery)
async def search(page: PageContext[SearchQuery]) -> SearchView | Response:
    """Find jobs by any name, tag, or part of a name."""
    q = page.query.q.strip()
    if not q:
        return SearchView("", NOTHING, [], 0)
    named = await find_named(page, q)
    if len(named.jobs.jobs) == 1 and not named.flows:
        return _redirect(page.link("jobs", named.jobs.jobs[0].key))
    if not named.jobs.jobs and (flow := named.flows[0].key if len(named.flows) == 1 else await _flow_by_id(page, q)):
        return _redirect(page.link("flows", flow))
    page.now_ms = await page.service.now()
    await page.service.survey(page.principal.queues)  # once for all lists
    hits = await _by_words(page, q)
    return SearchView(q, named, [hit for hit in hits if hit.found.jobs], sum(hit.found.looked_at for hit in hits))


def _redirect(path: str) -> Response:
    return Response(303, b"", (*HEADERS, ("Location", path)), HTML)


async def _flow_by_id(page: PageContext[SearchQuery], q: str) -> str:
    """Return the id of the flow with this id, if there is one that the principal may see; else an empty text."""
    try:
        return (await read_flow(page, parse_id(without_cut_marks(q)))).summary.key
    except (BadInput, UnknownFlow, Forbidden):
        return ""


async def _by_words(page: PageContext[SearchQuery], q: str) -> list[Hits]:
    wanted = [("Tagged", ListFilter(tag=q))] if len(q.encode()) <= TAG_MAX else []
    if condition := _FIELD.fullmatch(q):
        wanted.append(("With this payload field", ListFilter(where=f"{condition[1]}={condition[2]}")))
    if len(q.encode()) < NAME_MAX:
        wanted += [(name.capitalize(), ListFilter(state=name, name=q)) for name in LISTS]
    if len(q.encode()) <= SOUGHT_MAX and not page.hides_payloads:
        wanted += [
            ("In payloads", ListFilter(text=q)),
            ("In payloads of the history", ListFilter(state="history", text=q)),
        ]
    return list(await asyncio.gather(*(_hits(page, title, job_filter) for title, job_filter in wanted)))


async def _hits(page: PageContext[SearchQuery], title: str, job_filter: ListFilter) -> Hits:
    listing: Listing = msgspec.structs.replace(job_filter.listing(page.now_ms), most=SHOWN)
    try:
        found = await search_jobs(page, listing, SCAN_MAX)  # type: ignore[arg-type]
    except (BadInput, TooLarge, Forbidden):  # the field is not indexed, or no condition, or payloads are hidden
        found = JobSearchResult([], {}, {}, "", 0)
    return Hits(title, job_filter.list_name, found, job_filter.fields)
