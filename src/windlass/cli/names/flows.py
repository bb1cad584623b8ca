"""Names of flows on the command line: the id of the flow, or any name of a job that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.output import ID, Column, print_note, print_table
from windlass.core.flow import FlowSummary
from windlass.core.ids import format_id, id_part
from windlass.core.job import Timeline
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

from .jobs import find_jobs, is_certain, parse_job_id

PAGES_READ_MAX = 5  # of up to 2,000 flows each
_CANDIDATES = (ID, Column("name", shrinks=12), Column("state"))


def find_flows(service: Service, names: Sequence[str], queue: str = "") -> tuple[bytes, ...]:
    """Return the ids of the named flows. If a name means no flow, say so for each such name and exit with code 1; no
    flow is changed then."""
    found = [_find(service, name, queue) for name in names]
    ids = [flow_id for flow_id in found if flow_id is not None]
    if len(ids) < len(names):
        raise click.exceptions.Exit(1)
    return tuple(dict.fromkeys(ids))


def _find(service: Service, name: str, queue: str) -> bytes | None:
    given = parse_job_id(name)
    if given is None and id_part(name) is not None and (found := _find_by_part(service, name, queue)) is not None:
        return found
    job_id = find_jobs(service, (name,), queue)[0] if given is None else given
    (answer,) = service.job([job_id]).wait()
    if not isinstance(answer, Timeline):
        return given  # the id of a flow; if there is none, the operation says so
    if answer.job.flow is None:
        print_note(f"windlass: {name}: this job belongs to no flow. `windlass jobs show {answer.job.key}` shows it.")
        return None
    return answer.job.flow.id


def _find_by_part(service: Service, name: str, queue: str) -> bytes | None:
    """Return the only flow that has an id with this part, or a job with such an id."""
    named = service.find(name, queue=queue).wait()
    if named.jobs and not named.looked_at:
        return None  # another name of a job
    flows = {flow.id: flow for flow in _read_flows(service, name) if queue in ("", *flow.queues)}
    if not flows and not (named.is_complete or is_certain(name)):
        return None
    found = list(dict.fromkeys([*flows, *(job.flow.id for job in named.jobs if job.flow)]))
    if len(found) > 1:
        print_note(f"windlass: {name} may mean one of these flows. Use a whole id, or name the queue with --queue.")
        print_table(_CANDIDATES, ((format_id(flow_id), *_about(flows.get(flow_id))) for flow_id in found), empty="")
        raise click.exceptions.Exit(1)
    return found[0] if found else None


def _about(flow: FlowSummary | None) -> tuple[str, str]:
    return (flow.name, flow.state) if flow else ("", "")


def _read_flows(service: Service, part: str) -> list[FlowSummary]:
    found: list[FlowSummary] = []
    cursor = ""
    for _ in range(PAGES_READ_MAX):
        page = service.flows(alias=part, most=PAGE_MAX, cursor=cursor).wait()
        found += page.flows
        cursor = page.cursor
        if not cursor:
            break
    return found
