"""Jobs, flows and queues that a text names: for the search page, and for other pages that lead to what is named."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.flow import FlowPage, FlowSummary
from windlass.core.ids import ID_DIGITS, id_part
from windlass.core.job_aliases import AliasMatches
from windlass.core.validation.bounds import UNIQUE_MAX
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS, HTML
from windlass.web.listener.messages import Response

from .queue_names import names_containing

FLOWS_SHOWN = 20
QUEUES_SHOWN = 20


class Named(msgspec.Struct, frozen=True):
    jobs: AliasMatches
    flows: list[FlowSummary]
    queues: list[str]  # whose names contain the text


NOTHING = Named(AliasMatches([]), [], [])


async def find_named(page: PageContext[Any], text: str) -> Named:
    """Find what a text names, in the queues that the principal may use."""
    queues = await page.service.queues()
    jobs, flows = await asyncio.gather(_jobs(page, text), _flows(page, text))
    visible = [name for name in queues if page.may_use(name)] if page.principal.queues else queues
    return Named(jobs, flows, names_containing(visible, text, QUEUES_SHOWN))


async def _jobs(page: PageContext[Any], text: str) -> AliasMatches:
    if len(text.encode()) > UNIQUE_MAX:
        return AliasMatches([])
    try:
        return await page.service.find_within(text, page.principal.queues)
    except BadInput:  # control characters
        return AliasMatches([])


async def _flows(page: PageContext[Any], text: str) -> list[FlowSummary]:
    """Return the flows with this part of their id, among the newest 2,000."""
    part = id_part(text)
    if part is None or len(part.digits) == ID_DIGITS:
        return []
    try:
        found: FlowPage = await page.service.flows(alias=text, most=FLOWS_SHOWN, queues=page.principal.queues)
    except BadInput:  # a long text
        return []
    return found.flows


def redirect_part(page: PageContext[Any]) -> Response | None:
    """Redirect from the address of a job or flow with a part of its id, as people write it by hand, to the search."""
    given = page.path_values["id"]
    part = id_part(given)
    if part is None or len(part.digits) == ID_DIGITS:
        return None
    return Response(303, b"", (*HEADERS, ("Location", page.link("search", q=given))), HTML)
