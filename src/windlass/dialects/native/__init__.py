"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import (
    acting,
    following,
    limiting,
    notifying,
    producing,
    queueing,
    reading,
    reporting,
    scheduling,
    several,
    staffing,
    steering,
    taking,
)

ROUTES = (
    producing.routes,
    reading.routes,
    several.routes,
    following.routes,
    acting.routes,
    taking.routes,
    reporting.routes,
    queueing.routes,
    limiting.routes,
    scheduling.routes,
    staffing.routes,
    notifying.routes,
    steering.routes,
)
