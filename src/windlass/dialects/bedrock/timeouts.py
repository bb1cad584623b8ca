"""Timeouts of jobs: how long a worker may have a job, and when the job is queued again.

`jobTimeout` and `retryAfter` are leases of the engine with a length written as date modifiers. Only a job with
`retryAfter` stays with its old worker, too, when its time is over (Flag.RETAKE)."""

from __future__ import annotations

from typing import Any

from windlass.core.job import Job
from windlass.core.queue import FOREVER_MS
from windlass.core.scheduling.repeat import parse_modifiers
from windlass.core.validation.bounds import DURATION_MAX

from . import times

FIRST_LEASE_MS = 60_000  # of a job whose lease depends on the calendar, until GetJob sets its deadline


def stored_lease_ms(rule: str) -> int:
    """Return the lease to store with a new job that has this rule. Without a rule it is the lease of the queue (0),
    which has no end in Bedrock's own queue unless the queue is configured."""
    if not rule:
        return 0
    fixed_ms = parse_modifiers(rule).fixed_ms
    return FIRST_LEASE_MS if fixed_ms is None else max(1, fixed_ms)


def is_positive(rule: str) -> bool:
    """Return whether a job with this rule can be worked on at all. Rules that depend on the calendar may be."""
    fixed_ms = parse_modifiers(rule).fixed_ms
    return fixed_ms is None or fixed_ms > 0


def timeout_of(job: Job) -> str:
    """Return the job's own timeout as it was given. Empty: none."""
    return "" if job.retake else job.lease_rule


def expires_at_ms(job: Job) -> int | None:
    """Return the instant at which a running job is queued again. None: never, or it does not run."""
    return None if job.retake else job.lease_deadline_at_ms


def new_lease_ms(job: Job, default_ms: int) -> int:
    """Return the length that the lease of a taken job must have, from the take on. 0: it stays as it is.

    Bedrock clients do not extend leases, so a lease that the queue or another dialect chose does not count: a job
    without a rule gets the default, or a lease without end. The engine leaves the lease of a queue that does not renew
    leases. A lease that depends on the calendar is computed here."""
    if job.started_at_ms is None:
        return 0
    if job.lease_rule:
        return _lease_ms_by_rule(job, job.started_at_ms)
    if job.retake:
        return 0
    deadline_at_ms, wanted_ms = job.lease_deadline_at_ms, default_ms or FOREVER_MS
    given_ms = FOREVER_MS if deadline_at_ms is None else deadline_at_ms - job.started_at_ms
    return 0 if given_ms == wanted_ms else wanted_ms


def _lease_ms_by_rule(job: Job, started_at_ms: int) -> int:
    modifiers, stored_ms = parse_modifiers(job.lease_rule), stored_lease_ms(job.lease_rule)
    if modifiers.fixed_ms is not None:
        return 0 if job.retake or job.lease_ms == stored_ms else stored_ms
    until_ms = modifiers.apply_ms(started_at_ms) or DURATION_MAX
    return min(max(1, until_ms - started_at_ms), DURATION_MAX)


def expiry_after_take(job: Job, deadline_at_ms: int | None) -> int | None:
    """Return when a taken job expires. `deadline_at_ms`: of its new lease (0: none), or None if it kept its lease."""
    if deadline_at_ms is None:
        return expires_at_ms(job)
    return None if job.retake else deadline_at_ms or None


def fields(job: Job, default_ms: int, at_ms: int | None) -> dict[str, Any]:
    """Return the fields about a job's timeout, if it has its own or there is a default. `at_ms`: when it expires."""
    timeout = timeout_of(job)
    if not timeout and (not default_ms or at_ms is None):
        return {}
    return {"timeout": timeout, "expires": times.format_last_run(at_ms)}
