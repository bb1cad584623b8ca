"""What do people see? Pages made on the server, each from a few questions to the service; small scripts keep them
current. docs/dashboard.md says how a page is added."""

from __future__ import annotations

from . import entering, live, static_files
from .actions import queues as queue_actions
from .pages import job, overview
from .refusing import refusal_page

__all__ = ["ROUTES", "refusal_page"]

_PAGES = (overview, job)
_ACTIONS = (queue_actions,)
ROUTES = tuple(subject.routes for subject in (static_files, entering, live, *_PAGES, *_ACTIONS))
