"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import acting, following, producing, reading, reporting, taking

ROUTES = (
    producing.routes,
    reading.routes,
    following.routes,
    acting.routes,
    taking.routes,
    reporting.routes,
)
