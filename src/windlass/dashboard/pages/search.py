"""Search: an id of any dialect redirects to its job; other words are searched in tags, names and queues."""

from __future__ import annotations

import asyncio
import contextlib
import re

import msgspec

from windlass.core.errors import BadInput, Refusal
from windlass.core.ids import NUMBER_MAX, parse_id
from windlass.core.job import Timeline
from windlass.core.operations import Listing
from windlass.core.validation.bounds import NAME_MAX, TAG_MAX, UNIQUE_MAX
from windlass.dashboard.forms.filters import LISTS, ListFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import JobSearchResult, search_jobs
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

BEDROCK_QUEUE = "bedrock"
QUEUES_MAX = 200  # searched for a unique key
SHOWN = 5  # jobs of each list
SCAN_MAX = 1_000  # jobs of each list
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


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
    queues: list[str]
    hits: list[Hits]
    looked_at: int


@routes.page("/search", "search.html", section="jobs", query=SearchQuery)
async def search(page: PageContext[SearchQuery]) -> SearchView | Response:
    """Find jobs by id, unique key, tag or name."""
    q = page.query.q.strip()
    if not q:
        return SearchView("", [], [], 0)
    names = [name for name in await page.service.queues() if page.may_use(name)]
    found = await _by_id(page, q) or await _by_unique_key(page, q, names)
    if found is not None:
        return _redirect(page.link("jobs", found))
    page.now_ms = await page.service.now()
    hits = await _by_words(page, q)
    return SearchView(
        q,
        [name for name in names if q.casefold() in name.casefold()][:20],
        [hit for hit in hits if hit.found.jobs],
        sum(hit.found.looked_at for hit in hits),
    )


def _redirect(path: str) -> Response:
    return Response(303, b"", (*HEADERS, ("Location", path)), HTML)


async def _by_id(page: PageContext[SearchQuery], q: str) -> str | None:
    """Find a job by its id, or by its number in the Bedrock dialect."""
    candidates = []
    if _NUMBER.fullmatch(q) and int(q) <= NUMBER_MAX:
        candidates.append(page.service.numbered_id(BEDROCK_QUEUE, int(q)))
        (numbered,) = await page.service.numbered(BEDROCK_QUEUE, [int(q)])
        candidates += [] if isinstance(numbered, Refusal) else [numbered]
    with contextlib.suppress(BadInput):
        candidates.append(parse_id(q))
    for found in await page.service.job(candidates) if candidates else ():
        if isinstance(found, Timeline) and page.may_use(found.job.queue):
            return found.job.key
    return None


async def _by_unique_key(page: PageContext[SearchQuery], q: str, names: list[str]) -> str | None:
    """Find a job by its unique key, such as a processor's uuid or a download's id."""
    if len(q.encode()) > UNIQUE_MAX:
        return None
    holders = await asyncio.gather(*(page.service.holder(name, q) for name in names[:QUEUES_MAX]))
    held = [holder for holder in holders if holder is not None]
    for found in await page.service.job(held[:1]) if held else ():
        if isinstance(found, Timeline):
            return found.job.key
    return None


async def _by_words(page: PageContext[SearchQuery], q: str) -> list[Hits]:
    wanted = [("Tagged", ListFilter(tag=q))] if len(q.encode()) <= TAG_MAX else []
    if len(q.encode()) < NAME_MAX:
        wanted += [(name.capitalize(), ListFilter(state=name, name=q)) for name in LISTS]
    return list(await asyncio.gather(*(_hits(page, title, job_filter) for title, job_filter in wanted)))


async def _hits(page: PageContext[SearchQuery], title: str, job_filter: ListFilter) -> Hits:
    listing: Listing = msgspec.structs.replace(job_filter.listing(page.now_ms), most=SHOWN)
    found = await search_jobs(page, listing, SCAN_MAX)  # type: ignore[arg-type]
    return Hits(title, job_filter.list_name, found, job_filter.fields)
