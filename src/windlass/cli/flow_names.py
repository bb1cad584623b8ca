"""Names of flows on the command line: the id of the flow, or any name of a job that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.core.job import Timeline
from windlass.service import Service

from .job_names import find_jobs, parse_job_id
from .output import print_note


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
    job_id = find_jobs(service, (name,), queue)[0] if given is None else given
    (answer,) = service.job([job_id]).wait()
    if not isinstance(answer, Timeline):
        return given  # the id of a flow; if there is none, the operation says so
    if answer.job.flow is None:
        print_note(f"windlass: {name}: this job belongs to no flow. `windlass jobs show {answer.job.key}` shows it.")
        return None
    return answer.job.flow.id
