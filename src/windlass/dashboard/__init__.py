"""Web dashboard: pages rendered on the server from a few service calls, kept current by small scripts.

docs/dashboard.md describes how to add a page."""

from __future__ import annotations

from . import live, login, static_files
from .actions import alerts as alert_actions
from .actions import bulk as matching_actions
from .actions import callbacks as callback_actions
from .actions import doctor
from .actions import durable as durable_actions
from .actions import filters as filter_actions
from .actions import flows as flow_actions
from .actions import job_forms as job_form_actions
from .actions import jobs as job_actions
from .actions import limits as limit_actions
from .actions import queues as queue_actions
from .actions import schedules as schedule_actions
from .actions import workers as worker_actions
from .error_page import render_error_page
from .pages import (
    actions,
    aggregations,
    audit,
    callbacks,
    durable,
    engine,
    failures,
    flow,
    flows,
    job,
    job_forms,
    jobs,
    limits,
    overview,
    queues,
    schedules,
    search,
    signal_link,
    tasks,
    workers,
)
from .pages.alerts import page as alerts
from .palette import routes as palette_routes
from .rendering import prepare

__all__ = ["ROUTES", "prepare", "render_error_page"]

_PAGES = (
    overview, queues, tasks, jobs, job, job_forms, flows, flow, search, failures, actions, workers, schedules, limits,
    aggregations, callbacks, engine, audit, signal_link, durable, alerts,
)  # fmt: skip
_ACTIONS = (
    queue_actions, job_actions, job_form_actions, matching_actions, limit_actions, schedule_actions, worker_actions,
    callback_actions, flow_actions, durable_actions, doctor, alert_actions, filter_actions,
)  # fmt: skip
ROUTES = tuple(subject.routes for subject in (static_files, login, live, palette_routes, *_PAGES, *_ACTIONS))
