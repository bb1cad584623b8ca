"""Native HTTP API under /api/v1: the operations of the service for clients in any language."""

from __future__ import annotations

from . import (
    alerts,
    atomic_enqueue,
    bulk_actions,
    callbacks,
    enqueue,
    events,
    failures,
    flows,
    history,
    job_admin,
    jobs,
    limits,
    queues,
    reports,
    schedules,
    take,
    tasks,
    workers,
)
from .admin import deployment, transfer
from .durable import signals, steps, streams

_JOB_ROUTES = (enqueue, atomic_enqueue, jobs, failures, flows, events, job_admin, bulk_actions, take, reports)
_DURABLE_ROUTES = (steps, signals, streams)
_OTHER_ROUTES = (queues, history, limits, schedules, tasks, workers, callbacks, alerts, deployment, transfer)
ROUTES = tuple(subject.routes for subject in (*_JOB_ROUTES, *_DURABLE_ROUTES, *_OTHER_ROUTES))
