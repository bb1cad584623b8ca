"""The search box: an id of any dialect leads to its job; all else is sought among tags, names and queues."""

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
from windlass.dashboard.forms.filters import LISTS, JobFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import JobSearchResult, search_jobs
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

BEDROCK_QUEUE = "bedrock"
QUEUES_MAX = 200  # in which a unique key is looked up
SHOWN = 5  # of each list
SCAN_MAX = 1_000  # jobs, for each list
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: str = ""


class Hits(msgspec.Struct, frozen=True):
    """Of one list: the first, and where all of them are."""

    title: str
    listed: str
    found: JobSearchResult
    filter: dict[str, str]


class SearchView(msgspec.Struct, frozen=True):
    q: str
    queues: list[str]
    hits: list[Hits]
    looked_at: int


@routes.page("/search", "search.html", section="jobs", query=SearchQuery)
async def search(page: PageContext[SearchQuery]) -> SearchView | Response:
    """Jobs by id, unique key, tag or name."""
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
        [one for one in hits if one.found.jobs],
        sum(one.found.looked_at for one in hits),
    )


def _redirect(path: str) -> Response:
    return Response(303, b"", (*HEADERS, ("Location", path)), HTML)


async def _by_id(page: PageContext[SearchQuery], q: str) -> str | None:
    """Also by the number that Bedrock's clients know a job by."""
    candidates = []
    if _NUMBER.fullmatch(q) and int(q) <= NUMBER_MAX:
        candidates.append(page.service.numbered_id(BEDROCK_QUEUE, int(q)))
        (later,) = await page.service.numbered(BEDROCK_QUEUE, [int(q)])
        candidates += [] if isinstance(later, Refusal) else [later]
    with contextlib.suppress(BadInput):
        candidates.append(parse_id(q))
    for found in await page.service.job(candidates) if candidates else ():
        if isinstance(found, Timeline) and page.may_use(found.job.queue):
            return found.job.key
    return None


async def _by_unique_key(page: PageContext[SearchQuery], q: str, names: list[str]) -> str | None:
    """A processor's uuid, a downloader's id, and whatever else jobs are unique by."""
    if len(q.encode()) > UNIQUE_MAX:
        return None
    holders = await asyncio.gather(*(page.service.holder(name, q) for name in names[:QUEUES_MAX]))
    held = [one for one in holders if one is not None]
    for found in await page.service.job(held[:1]) if held else ():
        if isinstance(found, Timeline):
            return found.job.key
    return None


async def _by_words(page: PageContext[SearchQuery], q: str) -> list[Hits]:
    wanted = [("Tagged", JobFilter(tag=q))] if len(q.encode()) <= TAG_MAX else []
    if len(q.encode()) < NAME_MAX:
        wanted += [(name.capitalize(), JobFilter(state=name, name=q)) for name in LISTS]
    return list(await asyncio.gather(*(_hits(page, title, one) for title, one in wanted)))


async def _hits(page: PageContext[SearchQuery], title: str, wanted: JobFilter) -> Hits:
    listing: Listing = msgspec.structs.replace(wanted.listing(page.now_ms), most=SHOWN)
    return Hits(title, wanted.listed, await search_jobs(page, listing, SCAN_MAX), wanted.fields)  # type: ignore[arg-type]
