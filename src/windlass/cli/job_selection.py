"""Selection of jobs across queues and states, read page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

import msgspec

from windlass.core.errors import BadInput, UnknownFilter
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import Job, Timeline
from windlass.core.operations import Listing, Page
from windlass.core.text.durations import parse_duration_ms
from windlass.core.text.error_text import error_line
from windlass.core.text.name_patterns import name_pattern
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

STATES = ("running", "queued", "scheduled", "waiting", "suspended", "failed", "cancelled", "finished")
LISTS = (*STATES, "history")
NOT_ENDED = ("running", "queued", "scheduled", "waiting", "suspended")
FILTER_FIELDS = ("state", "queue", "name", "tag", "where", "text", "since", "order")  # of a saved filter
ALL = "all"
LOOKED_AT_MAX = 10_000  # jobs, for a list with a limit
TOP_SHARE = 3  # the running jobs, and the failed ones, have at most a third of the rows each
WHOLE_BATCH_SIZE = 20  # jobs; a payload may have 1 MiB


class JobSelection(NamedTuple):
    """Filters of a list of jobs. Empty fields match every job."""

    queues: Sequence[str] = ()
    states: Sequence[str] = ()
    tag: str = ""
    name: str = ""  # GLOB
    created_from_ms: int = 0
    newest_first: bool = False
    text: str = ""  # in the payload
    where: Sequence[str] = ()  # values of indexed payload fields, as field=value


def with_saved_filter(service: Service, selection: JobSelection, name: str, now_ms: int) -> JobSelection:
    """Add the fields of a saved filter to a selection. Fields of the selection have precedence."""
    saved = next((saved for saved in service.filters().wait() if saved.name == name), None)
    if saved is None:
        raise UnknownFilter(f"There is no saved filter {name!r}; windlass filters ls lists them.")
    fields = saved.fields
    # Without a state the page lists queued jobs, or jobs of all states that have a tag, a field or a text.
    has_all = not fields.keys().isdisjoint(("tag", "where", "text"))
    states = selection.states or ([fields["state"]] if "state" in fields else [] if has_all else ["queued"])
    _check_fields(saved, states)
    created_from_ms = now_ms - parse_duration_ms(fields["since"]) if "since" in fields else 0
    return JobSelection(
        selection.queues or ([fields["queue"]] if "queue" in fields else []),
        states,
        selection.tag or fields.get("tag", ""),
        selection.name or name_pattern(fields.get("name", "")),
        selection.created_from_ms or max(0, created_from_ms),
        selection.newest_first and fields.get("order") != "oldest",
        selection.text or fields.get("text", ""),
        selection.where or ([fields["where"]] if "where" in fields else []),
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
    """Find jobs by queue, state, name and creation. They hold only the beginning of long payloads."""
    for listing in _listings(service, selection, min(most, PAGE_MAX)):
        yield from _pages(service, listing)


def _listings(service: Service, selection: JobSelection, most: int) -> Iterator[Listing]:
    rest = {
        "name": selection.name,
        "created_from_ms": selection.created_from_ms,
        "newest_first": selection.newest_first,
        "most": most,
    }
    queues = selection.queues or service.queues().wait()
    for stats in service.stats(list(dict.fromkeys(queues))).wait():
        for state in selection.states or STATES:
            if getattr(stats, state):
                yield msgspec.convert({"queue": stats.queue, "state": state, **rest}, Listing)


def _pages(service: Service, listing: Listing) -> Iterator[Job]:
    while True:
        page = service.jobs(listing).wait()
        yield from page.jobs
        if not page.cursor:
            return
        listing = msgspec.structs.replace(listing, cursor=page.cursor)


def _matches(job: Job, selection: JobSelection) -> bool:
    """Filter a list by tag or payload field, which covers all queues and states."""
    label = "running" if job.state.is_leased else job.state.label
    state = "history" if job.is_history else label
    states = selection.states or (LISTS if selection.text else STATES)
    return (not selection.queues or job.queue in selection.queues) and state in states


class Recent:
    """The selected jobs, the newest first: by their creation, or by their start or end if they are of one state only.
    A list with a limit examines a bounded number of jobs, and says how far it looked."""

    def __init__(self, service: Service, selection: JobSelection, limit: int) -> None:
        self._service = service
        self._selection = selection
        self._limit = limit  # 0: none
        only_state = selection.states[0] if len(selection.states) == 1 else ""
        self._key = _KEYS.get(only_state, _created)
        self.looked_at = 0
        self.is_cut = False  # not all jobs were examined, although the list is not full
        self.is_complete = True  # False: more queues have such jobs than a list covers

    def jobs(self) -> Iterator[Job]:
        """Yield the jobs in their order. Without states, a tag or a text, running and failed jobs come first."""
        selection = self._selection
        has_top = selection.newest_first and not any((selection.states, selection.tag, selection.text, selection.where))
        top = list(self._read_top()) if has_top else []
        yield from top
        shown = {job.id for job in top}
        sources = [self._pages(listing) for listing in self._listings()]
        jobs = merge(*sources, key=self._key, reverse=selection.newest_first)
        yield from (job for job in jobs if job.id not in shown)

    def _read_top(self) -> Iterator[Job]:
        most = max(1, self._limit // TOP_SHARE) if self._limit else None
        for state in ("running", "failed"):
            found = [job for queue in self._queues() for job in self._read_page(self._listing(queue, state)).jobs]
            yield from sorted(found, key=_KEYS[state], reverse=True)[:most]

    def _listings(self) -> Iterator[Listing]:
        selection = self._selection
        if selection.tag or selection.where:
            # With a queue, a field that is not indexed there is reported.
            queue = selection.queues[0] if selection.where and len(selection.queues) == 1 else ""
            yield self._listing(queue, "")
            return
        for queue in self._queues():
            for state in self._states():
                yield self._listing(queue, state)

    def _states(self) -> Sequence[str]:
        """The history is listed on request only, but a text may be anywhere."""
        return self._selection.states or ((ALL, "history") if self._selection.text else (ALL,))

    def _queues(self) -> Sequence[str]:
        return list(dict.fromkeys(self._selection.queues)) or [""]

    def _listing(self, queue: str, state: str) -> Listing:
        selection = self._selection
        return Listing(
            queue=queue,
            state=state,
            tag=selection.tag,
            name=selection.name,
            created_from_ms=selection.created_from_ms,
            newest_first=selection.newest_first,
            text=selection.text,
            where=tuple(selection.where),
            most=PAGE_MAX,
        )

    def _pages(self, listing: Listing) -> Iterator[Job]:
        while True:
            page = self._read_page(listing)
            found = [job for job in page.jobs if listing.state or _matches(job, self._selection)]
            yield from sorted(found, key=self._key, reverse=listing.newest_first)
            if not page.cursor:
                return
            if self._limit and self.looked_at >= LOOKED_AT_MAX:
                self.is_cut = True
                return
            listing = msgspec.structs.replace(listing, cursor=page.cursor)

    def _read_page(self, listing: Listing) -> Page:
        page = self._service.jobs(listing).wait()
        self.looked_at += page.looked_at
        self.is_complete = self.is_complete and page.is_complete
        return page


def _created(job: Job) -> int:
    return job.created_at_ms


def _start(job: Job) -> int:
    return job.started_at_ms or job.created_at_ms


def _end(job: Job) -> int:
    return job.ended_at_ms or 0


_KEYS = {"running": _start} | dict.fromkeys(("finished", "failed", "cancelled", "history"), _end)


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
