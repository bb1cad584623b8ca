"""What do people see? Pages made on the server, each from a few questions to the service; small scripts keep them
current. docs/dashboard.md says how a page is added."""

from __future__ import annotations

from . import entering, live, static_files
from .actions import callbacks as callback_actions
from .actions import doctor
from .actions import limits as limit_actions
from .actions import queues as queue_actions
from .actions import schedules as schedule_actions
from .actions import workers as worker_actions
from .pages import aggregations, audit, callbacks, engine, limits, overview, queues, schedules, workers
from .refusing import refusal_page
from .rendering import prepare

__all__ = ["ROUTES", "prepare", "refusal_page"]

_PAGES = (overview, queues, workers, schedules, limits, aggregations, callbacks, engine, audit)
_ACTIONS = (queue_actions, limit_actions, schedule_actions, callback_actions, worker_actions, doctor)
ROUTES = tuple(subject.routes for subject in (static_files, entering, live, *_PAGES, *_ACTIONS))
