"""What is said of workers that speak by messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from windlass.core.errors import BadInput
from windlass.core.operations import Said, Saying

from . import jobs as check

QUEUES_MAX = 1000  # looked at by one call


def said(request: Said) -> None:
    check.instance("A request", request, Said)
    check.text("queue", request.queue, check.QUEUE_MAX)
    check.worker_id(request.worker)
    check.worker_info(request.info)
    if request.says not in get_args(Saying):
        raise BadInput(f"says must be one of {', '.join(get_args(Saying))}, not {request.says!r}.")
    check.text("unique", request.unique, check.UNIQUE_MAX, may_be_empty=True)
    if request.id != b"":
        check.id_bytes("id", request.id)
    check.whole("age_ms", request.age_ms, 0, check.DURATION_MAX)
    check.whole("idle_ms", request.idle_ms, 0, check.DURATION_MAX)
    check.number("progress", request.progress, 0, 1)
    if request.result is not None:
        check.new_blob("result", request.result, check.RESULT_MAX)


def queues(given: Sequence[str]) -> None:
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= QUEUES_MAX:
        raise BadInput(f"queues must be a list of 1 to {QUEUES_MAX} queues.")
    for queue in given:
        check.text("queue", queue, check.QUEUE_MAX)
