"""Pages about durable jobs: signals that jobs wait for, the stream of a job, and the value of a step."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.durable import STREAM_VALUES_MAX, StreamPage
from windlass.core.errors import UnknownJob, UnknownStep
from windlass.core.job import Job
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.durable_steps import StreamRow, ValueReader, stream_rows
from windlass.dashboard.views.saved_filters import FilterBar, filter_bar
from windlass.dashboard.views.signal_waits import SignalWaits, find_signal_waits
from windlass.web.listener.messages import Response

from .job import read_job, send_file

routes = DashboardRoutes()

STREAM_PER_PAGE = 100
LIVE_MAX = 2_000  # a list that scans more jobs does not refresh by itself


class SignalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: str = ""
    signal: str = ""
    cursor: str = ""


class SignalsView(msgspec.Struct, frozen=True):
    query: SignalsQuery
    found: SignalWaits
    saved: FilterBar

    @property
    def is_live(self) -> bool:
        return self.found.looked_at <= LIVE_MAX

    @property
    def filters(self) -> dict[str, str]:
        return {"queue": self.query.queue, "signal": self.query.signal}


@routes.page("/signals", "signals.html", section="signals", query=SignalsQuery)
async def signals(page: PageContext[SignalsQuery]) -> SignalsView:
    """List the jobs that wait for a signal, of a person or a program."""
    query = page.query
    if query.queue:
        page.context.check_queue(query.queue)
    page.now_ms = await page.service.now()
    found = await find_signal_waits(page, query.queue.strip(), query.signal.strip(), query.cursor)
    return SignalsView(query, found, await filter_bar(page, "signals"))


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[int, Meta(ge=0, le=2 * STREAM_VALUES_MAX)] = 0


class StreamView(msgspec.Struct, frozen=True):
    job: Job
    rows: list[StreamRow]
    page: StreamPage
    after: int

    @property
    def following(self) -> int:
        """Position after which the next page begins; 0: this is the last page."""
        is_full = len(self.rows) >= STREAM_PER_PAGE
        return self.rows[-1].item.position if is_full and not self.page.is_ended else 0


@routes.page("/jobs/{id}/stream", "stream.html", section="jobs", query=StreamQuery)
async def job_stream(page: PageContext[StreamQuery]) -> StreamView | Response:
    """Show the stream of a job, a page at a time."""
    try:
        found = (await read_job(page, page.context.job_id)).job
    except UnknownJob:
        if not page.is_live:
            raise
        return Response(204, b"", HEADERS)  # an open page keeps its content
    page.now_ms = await page.service.now()
    read = await page.service.read_stream(found.id, after=page.query.after, most=STREAM_PER_PAGE)
    rows = stream_rows(read.items, ValueReader(is_hidden=page.hides_payloads))
    return StreamView(found, rows, read, page.query.after)


class StepQuery(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""


@routes.page("/jobs/{id}/step", "job.html", section="jobs", query=StepQuery)
async def job_step(page: PageContext[StepQuery]) -> Response:
    """Send the whole value of a step, as it is stored."""
    stored = await read_job(page, page.context.job_id)
    state = await page.service.durable_states([stored.job.id]).one()
    value = next((step.value for step in state.steps if step.name == page.query.name), None)
    if value is None:
        raise UnknownStep(f"This job has no step {page.query.name!r} with a value.")
    return send_file(page, stored.job, value, "step")
