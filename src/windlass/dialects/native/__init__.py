"""The native API, /api/v1: the verbs of the service over HTTP, for any language."""

from __future__ import annotations

from . import (
    acting,
    background,
    failing,
    following,
    history,
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
    whole,
)

_JOBS = (producing, whole, reading, several, failing, following, acting, background, taking, reporting)
_AROUND = (queueing, history, limiting, scheduling, staffing, notifying, steering)
ROUTES = tuple(subject.routes for subject in (*_JOBS, *_AROUND))
