"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import (
    admin,
    atomic_enqueue,
    bulk_actions,
    callbacks,
    enqueue,
    events,
    failures,
    history,
    job_admin,
    jobs,
    jobs_by_id,
    limits,
    queues,
    reports,
    schedules,
    take,
    workers,
)

_JOBS = (enqueue, atomic_enqueue, jobs, jobs_by_id, failures, events, job_admin, bulk_actions, take, reports)
_AROUND = (queues, history, limits, schedules, workers, callbacks, admin)
ROUTES = tuple(subject.routes for subject in (*_JOBS, *_AROUND))
