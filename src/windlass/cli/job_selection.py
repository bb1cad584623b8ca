"""Selection of jobs across queues and states, read page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.job import Job, Timeline
from windlass.core.operations import Listing
from windlass.core.text.error_text import error_line
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

STATES = ("running", "queued", "scheduled", "waiting", "suspended", "failed", "cancelled", "finished")
LISTS = (*STATES, "history")
WHOLE_BATCH_SIZE = 20  # jobs; a payload may have 1 MiB


class JobSelection(NamedTuple):
    """Filters of a list of jobs. Empty fields match every job."""

    queues: Sequence[str] = ()
    states: Sequence[str] = ()
    tag: str = ""
    name: str = ""  # GLOB
    created_from_ms: int = 0
    newest_first: bool = False
    where: Sequence[str] = ()  # values of indexed payload fields, as field=value


def find(service: Service, selection: JobSelection, most: int = PAGE_MAX) -> Iterator[Job]:
    """Find jobs. They hold only the beginning of long payloads."""
    for listing in _listings(service, selection, min(most, PAGE_MAX)):
        yield from _pages(service, listing, selection)


def _listings(service: Service, selection: JobSelection, most: int) -> Iterator[Listing]:
    rest = {
        "name": selection.name,
        "created_from_ms": selection.created_from_ms,
        "newest_first": selection.newest_first,
        "most": most,
    }
    if selection.where:
        queue = selection.queues[0] if len(selection.queues) == 1 else ""
        yield msgspec.convert({"where": selection.where, "tag": selection.tag, "queue": queue, **rest}, Listing)
        return
    if selection.tag:
        yield msgspec.convert({"tag": selection.tag, **rest}, Listing)
        return
    queues = selection.queues or service.queues().wait()
    for stats in service.stats(list(dict.fromkeys(queues))).wait():
        for state in selection.states or STATES:
            if getattr(stats, state):
                yield msgspec.convert({"queue": stats.queue, "state": state, **rest}, Listing)


def _pages(service: Service, listing: Listing, selection: JobSelection) -> Iterator[Job]:
    while True:
        page = service.jobs(listing).wait()
        yield from (job for job in page.jobs if listing.state or _matches(job, selection))
        if not page.cursor:
            return
        listing = msgspec.structs.replace(listing, cursor=page.cursor)


def _matches(job: Job, selection: JobSelection) -> bool:
    """Filter a list by tag or payload field, which covers all queues and states."""
    label = "running" if job.state.is_leased else job.state.label
    state = "history" if job.is_history else label
    return (not selection.queues or job.queue in selection.queues) and state in (selection.states or STATES)


def with_whole_payloads(service: Service, jobs: Sequence[Job]) -> Iterator[Job]:
    """Read the whole payloads of the jobs. A job that was removed since keeps its shortened payload."""
    for start in range(0, len(jobs), WHOLE_BATCH_SIZE):
        step = jobs[start : start + WHOLE_BATCH_SIZE]
        cut = [job.id for job in step if not job.payload_is_whole]
        found = dict(zip(cut, service.job(cut).wait(), strict=True)) if cut else {}
        for job in step:
            read = found.get(job.id)
            yield read.job if isinstance(read, Timeline) else job


def with_errors(service: Service, ids: Sequence[bytes], *, with_causes: bool = False) -> Iterator[tuple[Job, str]]:
    """Yield each job with the error of its last attempt. Jobs that were removed since are left out. With causes, a job
    that ended because of another job has the error of that job."""
    for start in range(0, len(ids), WHOLE_BATCH_SIZE):
        answers = service.job(ids[start : start + WHOLE_BATCH_SIZE]).wait()
        found = [answer for answer in answers if isinstance(answer, Timeline)]
        consequences = [timeline.job.id for timeline in found if with_causes and timeline.job.is_consequence]
        causes = service.find_causes(consequences).wait() if consequences else {}
        for timeline in found:
            yield timeline.job, _error_text(timeline, causes.get(timeline.job.id))


def _error_text(timeline: Timeline, cause: Timeline | None) -> str:
    error = _last_error(timeline)
    if cause is None:
        return error
    return f"because of {cause.job.name} (job {cause.job.key}): {_last_error(cause)}"


def _last_error(timeline: Timeline) -> str:
    last = timeline.attempts[-1] if timeline.attempts else None
    return error_line(last.reason, last.error) if last else ""
