"""Which jobs are meant: walks over queues, states and pages, a bounded call at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.job import Job, Timeline
from windlass.core.operations import Listing
from windlass.core.text.error_text import error_line
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

STATES = ("running", "queued", "scheduled", "waiting", "failed", "cancelled", "finished")
LISTS = (*STATES, "history")
WHOLE_AT_ONCE = 20  # payloads may have a MiB each


class Wanted(NamedTuple):
    """Nothing given means everything."""

    queues: Sequence[str] = ()
    states: Sequence[str] = ()
    tag: str = ""
    name: str = ""  # GLOB
    created_from_ms: int = 0
    newest_first: bool = False


def find(service: Service, wanted: Wanted, most: int = PAGE_MAX) -> Iterator[Job]:
    """Jobs as pages show them: of a long payload only the beginning."""
    for listing in _listings(service, wanted, min(most, PAGE_MAX)):
        yield from _pages(service, listing, wanted)


def _listings(service: Service, wanted: Wanted, most: int) -> Iterator[Listing]:
    rest = {
        "name": wanted.name,
        "created_from_ms": wanted.created_from_ms,
        "newest_first": wanted.newest_first,
        "most": most,
    }
    if wanted.tag:
        yield msgspec.convert({"tag": wanted.tag, **rest}, Listing)
        return
    queues = wanted.queues or service.queues().wait()
    for stats in service.stats(list(dict.fromkeys(queues))).wait():
        for state in wanted.states or STATES:
            if getattr(stats, state):
                yield msgspec.convert({"queue": stats.queue, "state": state, **rest}, Listing)


def _pages(service: Service, listing: Listing, wanted: Wanted) -> Iterator[Job]:
    while True:
        page = service.jobs(listing).wait()
        yield from (job for job in page.jobs if not listing.tag or _is_wanted(job, wanted))
        if not page.cursor:
            return
        listing = msgspec.structs.replace(listing, cursor=page.cursor)


def _is_wanted(job: Job, wanted: Wanted) -> bool:
    """A list by tag goes over all queues and states."""
    label = "running" if job.state.is_leased else job.state.label
    state = "history" if job.is_history else label
    return (not wanted.queues or job.queue in wanted.queues) and state in (wanted.states or STATES)


def whole(service: Service, jobs: Sequence[Job]) -> Iterator[Job]:
    """The same jobs with all of their payloads; one that has gone meanwhile is left as it was seen."""
    for start in range(0, len(jobs), WHOLE_AT_ONCE):
        step = jobs[start : start + WHOLE_AT_ONCE]
        cut = [job.id for job in step if not job.payload_is_whole]
        found = dict(zip(cut, service.job(cut).wait(), strict=True)) if cut else {}
        for job in step:
            read = found.get(job.id)
            yield read.job if isinstance(read, Timeline) else job


def with_errors(service: Service, jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    """Each with what its last attempt said; those that have gone meanwhile are left out."""
    for start in range(0, len(jobs), WHOLE_AT_ONCE):
        for one in service.job([job.id for job in jobs[start : start + WHOLE_AT_ONCE]]).wait():
            if isinstance(one, Timeline):
                last = one.attempts[-1] if one.attempts else None
                yield one.job, error_line(last.reason, last.error) if last else ""
