"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import limiting, notifying, producing, queueing, reporting, scheduling, staffing, steering, taking

_ADMINISTRATION = (queueing, limiting, scheduling, staffing, notifying, steering)
ROUTES = (producing.routes, taking.routes, reporting.routes, *(one.routes for one in _ADMINISTRATION))
