"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import producing, reporting, taking

ROUTES = (producing.routes, taking.routes, reporting.routes)
