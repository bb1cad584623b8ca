"""Selection of jobs across queues and states, read page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.errors import BadInput, UnknownFilter
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import Job, Timeline
from windlass.core.operations import Listing
from windlass.core.text.durations import parse_duration_ms
from windlass.core.text.error_text import error_line
from windlass.core.text.name_patterns import name_pattern
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

STATES = ("running", "queued", "scheduled", "waiting", "suspended", "failed", "cancelled", "finished")
LISTS = (*STATES, "history")
NOT_ENDED = ("running", "queued", "scheduled", "waiting", "suspended")
FILTER_FIELDS = ("state", "queue", "name", "tag", "since", "order")  # of a saved filter
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


def with_saved_filter(service: Service, selection: JobSelection, name: str, now_ms: int) -> JobSelection:
    """Add the fields of a saved filter to a selection. Fields of the selection have precedence."""
    saved = next((saved for saved in service.filters().wait() if saved.name == name), None)
    if saved is None:
        raise UnknownFilter(f"There is no saved filter {name!r}; windlass filters ls lists them.")
    fields = saved.fields
    # Without a state the page lists queued jobs, or all jobs of a tag.
    states = selection.states or ([fields["state"]] if "state" in fields else [] if "tag" in fields else ["queued"])
    _check_fields(saved, states)
    created_from_ms = now_ms - parse_duration_ms(fields["since"]) if "since" in fields else 0
    return JobSelection(
        selection.queues or ([fields["queue"]] if "queue" in fields else []),
        states,
        selection.tag or fields.get("tag", ""),
        selection.name or name_pattern(fields.get("name", "")),
        selection.created_from_ms or max(0, created_from_ms),
        selection.newest_first or fields.get("order") == "newest",
    )


def _check_fields(saved: SavedFilter, states: Sequence[str]) -> None:
    """Raise BadInput for a filter that a selection cannot express."""
    if saved.page != "jobs":
        raise BadInput(f"The filter {saved.name!r} is about the page {saved.page}; it selects no list of jobs.")
    has_ended = not states or not set(states) <= set(NOT_ENDED)  # there, the page compares the end with `since`
    unknown = [field for field in saved.fields if field not in FILTER_FIELDS or (field == "since" and has_ended)]
    if unknown or not set(states) <= set(LISTS):
        raise BadInput(
            f"jobs ls cannot filter by {unknown[0] if unknown else 'this state'}, as {saved.name!r} does; "
            "open it in the dashboard."
        )


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
