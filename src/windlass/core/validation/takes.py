"""Checks of take requests and their filters."""

from __future__ import annotations

from windlass.core.errors import BadInput, TooLarge
from windlass.core.operations import Filter, Take

from .bounds import DURATION_MAX, INT32_MAX, INT32_MIN, NAME_MAX, NAMES_PER_FILTER, QUEUE_MAX, QUEUES_PER_TAKE, TAKE_MAX
from .values import check_boolean, check_duration_or_forever, check_glob, check_instance, check_integer, check_text
from .workers import check_worker_id


def check_take(request: Take) -> None:
    check_instance("A request", request, Take)
    if type(request.queues) is not tuple or not request.queues:
        raise BadInput("queues must be a tuple of at least one queue.")
    if len(request.queues) > QUEUES_PER_TAKE:
        raise TooLarge(f"A take may name {QUEUES_PER_TAKE} queues, not {len(request.queues)}.")
    for queue in request.queues:
        check_text("queue", queue, QUEUE_MAX)
    if len(set(request.queues)) != len(request.queues):
        raise BadInput("A queue is named twice.")
    check_integer("most", request.most, 1, TAKE_MAX)
    if request.weights != ():
        _check_weights(request)
    check_filter(request.wants)
    if request.worker != b"":
        check_worker_id(request.worker)
    check_duration_or_forever("lease_ms", request.lease_ms)
    check_integer("fallback_lease_ms", request.fallback_lease_ms, 0, DURATION_MAX)
    if request.lease_ms and request.fallback_lease_ms:
        raise BadInput("Give lease_ms or fallback_lease_ms, not both.")
    check_integer("accept_ms", request.accept_ms, 0, DURATION_MAX)
    check_integer("wait_ms", request.wait_ms, 0, DURATION_MAX)
    check_boolean("by_hand", request.by_hand)


def _check_weights(request: Take) -> None:
    if type(request.weights) is not tuple:
        raise BadInput("weights must be a tuple of whole numbers.")
    if len(request.weights) != len(request.queues):
        raise BadInput("Give one weight per queue, or no weights.")
    for weight in request.weights:
        check_integer("a weight", weight, 1, 1_000_000)


def check_filter(wants: Filter) -> None:
    check_instance("wants", wants, Filter)
    if bool(wants.only) + bool(wants.all_but) + bool(wants.glob) > 1:
        raise BadInput("Give only one of only, all_but and glob.")
    names = wants.only or wants.all_but
    if type(wants.only) is not tuple or type(wants.all_but) is not tuple:
        raise BadInput("only and all_but must be tuples of names.")
    if len(names) > NAMES_PER_FILTER:
        raise TooLarge(f"A filter may have {NAMES_PER_FILTER} names, not {len(names)}.")
    for name in names:
        check_text("name", name, NAME_MAX)
    if wants.priority is not None:
        check_integer("priority", wants.priority, INT32_MIN, INT32_MAX)
    check_boolean("hidden", wants.hidden)
    check_glob(wants.glob)
