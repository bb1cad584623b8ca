"""Search of the palette: the entries of the snapshot that a principal may see, and the job or flow that the text names.

Costs of a key stroke: nothing for names; `find_within` for a text that may be an id or a unique key, and one read of a
flow for a text that is an id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.core.errors import BadInput, Forbidden, UnknownFlow
from windlass.core.ids import parse_id
from windlass.core.job import Job
from windlass.core.validation.bounds import UNIQUE_MAX
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.flow import read_flow
from windlass.dashboard.views.icons import NAVIGATION
from windlass.dashboard.views.queue_names import names_containing
from windlass.dashboard.views.saved_filters import link_of

from .actions import actions
from .entries import Entry, select
from .snapshot import Snapshot, read_snapshot

QUEUES_RANKED = 1_000  # of more queues, the first with the longest typed word in their names
ALIAS_MIN = 3  # characters; shorter texts are only searched in names


async def search(page: PageContext[Any], query: str) -> list[Entry]:
    query = query.strip()
    snapshot = await read_snapshot(page)
    named = await _named(page, query) if len(query) >= ALIAS_MIN else []
    known = {entry.href for entry in named}
    found = [entry for entry in select(query, _all(page, snapshot, query)) if entry.href not in known or not entry.href]
    more = [_everywhere(page, query)] if query else []
    return [*named, *found][: 20 - len(more)] + more


def _all(page: PageContext[Any], snapshot: Snapshot, query: str) -> Iterator[Entry]:
    yield from _pages(page)
    yield from _filters(page, snapshot)
    if not query:
        return
    yield from _queues(page, snapshot, query)
    yield from actions(page, snapshot)
    yield from _schedules(page, snapshot)
    yield from _names_and_tags(page, snapshot)
    yield from _flows(page, snapshot)
    yield from (job_entry(page, job) for job in snapshot.jobs if page.may_use(job.queue))


def _pages(page: PageContext[Any]) -> Iterator[Entry]:
    for item in NAVIGATION:
        if page.may_see(item.role):
            href = page.link(item.path) if item.path else page.link()
            yield Entry(kind="Page", title=item.title, icon=item.section, href=href)


def _filters(page: PageContext[Any], snapshot: Snapshot) -> Iterator[Entry]:
    for saved in snapshot.filters:
        if saved.is_visible_to(page.principal):
            note = f"{saved.page}: " + ", ".join(f"{field} {value}" for field, value in saved.fields.items())
            yield Entry(kind="Filter", title=saved.name, note=note, icon="saved", href=link_of(page, saved))


def _queues(page: PageContext[Any], snapshot: Snapshot, query: str) -> Iterator[Entry]:
    names = snapshot.queues
    if len(names) > QUEUES_RANKED:  # a key stroke must not rank them all
        names = names_containing(names, max(query.split(), key=len), QUEUES_RANKED)
    for name in names:
        if page.may_use(name):
            stats = snapshot.stats.get(name)
            note = "paused" if stats and stats.is_paused else ""
            yield Entry(kind="Queue", title=name, note=note, icon="queues", href=page.link("queues", name))


def _schedules(page: PageContext[Any], snapshot: Snapshot) -> Iterator[Entry]:
    for status in snapshot.schedules:
        job = status.schedule.job
        if page.may_use(job.queue):
            title, note = status.schedule.name, f"{job.name} in {job.queue}"
            yield Entry(kind="Schedule", title=title, note=note, icon="schedules", href=page.link("schedules", title))


def _names_and_tags(page: PageContext[Any], snapshot: Snapshot) -> Iterator[Entry]:
    visible = [job for job in snapshot.jobs if page.may_use(job.queue)]
    for name in dict.fromkeys(job.name for job in visible):
        state = next(job.state.label for job in visible if job.name == name)
        listed = "running" if state == "dispatched" else state
        href = page.link("jobs", state=listed, name=exact_name(name))
        yield Entry(kind="Jobs", title=f"Jobs named {name}", note=listed, icon="jobs", href=href)
    for tag in dict.fromkeys(tag for job in visible for tag in job.tags):
        yield Entry(kind="Tag", title=tag, note="jobs with this tag", icon="jobs", href=page.link("jobs", tag=tag))


def _flows(page: PageContext[Any], snapshot: Snapshot) -> Iterator[Entry]:
    for flow in snapshot.flows:
        if all(map(page.may_use, flow.queues)):
            href = page.link("flows", flow.key)
            yield Entry(
                kind="Flow", title=flow.name or flow.key, note=flow.state, icon="flows", href=href, words=flow.key
            )


def job_entry(page: PageContext[Any], job: Job) -> Entry:
    note = f"{job.state.label} in {job.queue} · {job.key[-6:]}"
    return Entry(
        kind="Job", title=job.name, note=note, icon=job.state.label, href=page.link("jobs", job.key), words=job.key
    )


def _everywhere(page: PageContext[Any], query: str) -> Entry:
    return Entry(kind="Search", title=f"Search all jobs for {query}", icon="search", href=page.link("search", q=query))


async def _named(page: PageContext[Any], query: str) -> list[Entry]:
    """Return the jobs that the text names, by id, number or unique key, or the flow that has this id."""
    if len(query.encode()) > UNIQUE_MAX:
        return []
    try:
        jobs = (await page.service.find_within(query, page.principal.queues)).jobs
    except BadInput:  # control characters
        return []
    return [job_entry(page, job) for job in jobs[:6]] or await _flow_by_id(page, query)


async def _flow_by_id(page: PageContext[Any], query: str) -> list[Entry]:
    try:
        flow = (await read_flow(page, parse_id(query))).summary
    except (BadInput, UnknownFlow, Forbidden):
        return []
    href = page.link("flows", flow.key)
    return [Entry(kind="Flow", title=flow.name or flow.key, note=flow.state, icon="flows", href=href)]
