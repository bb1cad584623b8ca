"""What those who push jobs to workers may say."""

from __future__ import annotations

from typing import get_args

from windlass.core.errors import BadInput
from windlass.core.operations import Pushed, PushOutcome, Redirect

from . import jobs as check
from .lease_reports import held

REFUSED_MAX = 500


def pushed(request: Pushed) -> None:
    held(request, Pushed)
    check.worker_id(request.worker)
    if request.outcome not in get_args(PushOutcome):
        raise BadInput(f"outcome must be one of {', '.join(get_args(PushOutcome))}, not {request.outcome!r}.")
    check.lease("lease_ms", request.lease_ms)


def redirect(request: Redirect) -> None:
    held(request, Redirect)
    check.whole("accept_ms", request.accept_ms, 1, check.DURATION_MAX)
    if type(request.refused_by) is not tuple or not 1 <= len(request.refused_by) <= REFUSED_MAX:
        raise BadInput(f"refused_by must be a tuple of 1 to {REFUSED_MAX} workers.")
    for worker in request.refused_by:
        check.worker_id(worker)
