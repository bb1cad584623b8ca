"""The job that caused the end of another job, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.errors import MemberFailed, Refusal
from windlass.core.flow.graph import find_causes
from windlass.core.ids import format_id
from windlass.core.job import Job, Timeline
from windlass.core.states import State
from windlass.service import Service

HOPS_MAX = 20  # from a job to its cause, without a flow


class JobCause(NamedTuple):
    id: bytes
    label: str  # its step, or its name
    is_step: bool
    state: State | None  # None: deleted


def find_cause(service: Service, job: Job) -> JobCause | None:
    """Return the job that failed, was cancelled or was deleted by itself, and so ended a job."""
    if not job.is_consequence:
        return None
    return _find_in_flow(service, job) or _find_among_members(service, job)


def _find_in_flow(service: Service, job: Job) -> JobCause | None:
    if job.flow is None:
        return None
    try:
        flow = service.flow(job.flow.id).wait()
    except Refusal:  # the token may not see all queues of the flow
        return None
    step = find_causes(flow.steps).get(job.id)
    return None if step is None else JobCause(step.job_id, step.label, bool(step.step), step.state)


def _find_among_members(service: Service, job: Job) -> JobCause | None:
    for _ in range(HOPS_MAX):
        members = service.list_members(job.id, (State.FAILED, State.CANCELLED), most=1).wait().members
        if not members:
            return None
        job = members[0].job
        if not job.is_consequence:
            step = job.flow.step if job.flow else ""
            return JobCause(job.id, step or job.name, bool(step), job.state)
    return None


def describe_cause(job: Job, cause: JobCause) -> str:
    """Describe why a job ended, and how it goes on."""
    ended = "failed" if job.state is State.FAILED else "was cancelled"
    happened = {State.FAILED: "failed", State.CANCELLED: "was cancelled"}.get(cause.state, "was deleted")  # type: ignore[arg-type]
    label = f"{'step ' if cause.is_step else ''}{cause.label}"
    resume = (
        f", or: windlass flows resume {format_id(job.flow.id)}" if job.flow else "; this job then waits for it again"
    )
    return f"It {ended} because job {format_id(cause.id)} ({label}) {happened}. Retry that job{resume}"


def with_cause(service: Service, job_id: bytes, answer: str | Refusal) -> str | Refusal:
    """Add the cause to the refusal to retry a job that ended because of another job. If the cause was retried in the
    same call, the job waits again: then return its state."""
    if not isinstance(answer, MemberFailed):
        return answer
    (found,) = service.job([job_id]).wait()
    if not isinstance(found, Timeline):
        return answer
    if not found.job.state.is_ended:
        return found.job.state.label
    cause = find_cause(service, found.job)
    return answer if cause is None else MemberFailed(describe_cause(found.job, cause))
