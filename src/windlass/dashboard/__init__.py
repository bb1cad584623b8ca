"""What do people see? Pages made on the server, each from a few questions to the service; small scripts keep them
current. docs/dashboard.md says how a page is added."""

from __future__ import annotations

from . import entering, live, static_files
from .actions import doctor
from .actions import job_forms as job_form_actions
from .actions import jobs as job_actions
from .actions import limits as limit_actions
from .actions import matching as matching_actions
from .actions import queues as queue_actions
from .actions import schedules as schedule_actions
from .pages import (
    actions,
    audit,
    engine,
    failures,
    job,
    job_forms,
    jobs,
    limits,
    overview,
    queues,
    schedules,
    search,
    workers,
)
from .refusing import refusal_page
from .rendering import prepare

__all__ = ["ROUTES", "prepare", "refusal_page"]

_PAGES = (overview, queues, jobs, job, job_forms, search, failures, actions, workers, schedules, limits, engine, audit)
_ACTIONS = (queue_actions, job_actions, job_form_actions, matching_actions, limit_actions, schedule_actions, doctor)
ROUTES = tuple(subject.routes for subject in (static_files, entering, live, *_PAGES, *_ACTIONS))
