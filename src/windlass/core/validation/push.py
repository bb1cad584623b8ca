"""Checks of reports about pushed jobs."""

from __future__ import annotations

from typing import get_args

from windlass.core.errors import BadInput
from windlass.core.operations import PushOutcome, PushReport, Redirect

from .bounds import DURATION_MAX
from .lease_reports import check_lease_ref
from .values import check_duration_or_forever, check_integer
from .workers import check_worker_id

REFUSED_MAX = 500
BUSY_PAUSE_MAX = 60_000  # longer pauses would hide that a worker is gone


def check_push_report(request: PushReport) -> None:
    check_lease_ref(request, PushReport)
    check_worker_id(request.worker)
    if request.outcome not in get_args(PushOutcome):
        raise BadInput(f"outcome must be one of {', '.join(get_args(PushOutcome))}, not {request.outcome!r}.")
    check_duration_or_forever("lease_ms", request.lease_ms)
    check_integer("pause_ms", request.pause_ms, 0, BUSY_PAUSE_MAX)


def check_redirect(request: Redirect) -> None:
    check_lease_ref(request, Redirect)
    check_integer("accept_ms", request.accept_ms, 1, DURATION_MAX)
    if type(request.refused_by) is not tuple or not 1 <= len(request.refused_by) <= REFUSED_MAX:
        raise BadInput(f"refused_by must be a tuple of 1 to {REFUSED_MAX} workers.")
    for worker in request.refused_by:
        check_worker_id(worker)
