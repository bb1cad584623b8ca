"""Queues that commands name: reading, checks against the caller's token, and their settings.

A command that names no queue is about the queue `bedrock`."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.access.tokens import Principal
from windlass.core.errors import BadInput, TooLarge
from windlass.core.validation.bounds import QUEUE_MAX, QUEUES_PER_TAKE
from windlass.core.validation.values import check_new_name, check_text
from windlass.service import Service

from .parameters import Parameters
from .refusals import CommandRefused
from .verbs import QUEUE

MALFORMED_QUEUE, MALFORMED_QUEUES = (402, "Malformed queue"), (402, "Malformed queues")
DEFAULT = (QUEUE,)


def read_new_queue(parameters: Parameters) -> str:
    """Return the queue for a new job. The caller checks it against the token."""
    name = parameters.get("queue")
    if not name:
        return QUEUE
    try:
        check_new_name("queue", name, QUEUE_MAX)
    except (BadInput, TooLarge):
        raise CommandRefused(*MALFORMED_QUEUE) from None
    return name


def read_queues(parameters: Parameters, principal: Principal) -> tuple[str, ...]:
    """Return the queues that a command names, or `bedrock`. Raise Forbidden if the token is not for one of them."""
    values = parameters.values
    found = read_named_queues(parameters) if "queue" in values or "queues" in values else ()
    check_queues(principal, found or DEFAULT)
    return found or DEFAULT


def read_named_queues(parameters: Parameters) -> tuple[str, ...]:
    """Return the queue of the header `queue`, or the queues of the header `queues`, in their order. Empty: none."""
    single, several = parameters.get("queue"), parameters.get("queues")
    if single and several:
        raise CommandRefused(402, "Cannot use queue with queues")
    if single:
        if not is_queue_name(single):
            raise CommandRefused(*MALFORMED_QUEUE)
        return (single,)
    if not several:
        return ()
    found = tuple(dict.fromkeys(name for part in several.split(",") if (name := part.strip(" "))))
    if not found or len(found) > QUEUES_PER_TAKE or not all(map(is_queue_name, found)):
        raise CommandRefused(*MALFORMED_QUEUES)
    return found


def is_queue_name(name: str) -> bool:
    try:
        check_text("queue", name, QUEUE_MAX)
    except (BadInput, TooLarge):
        return False
    return True


def check_queues(principal: Principal, queues: Iterable[str]) -> None:
    """Raise Forbidden if the token is not for one of these queues, which the caller named."""
    if principal.queues:
        for queue in queues:
            principal.check(principal.roles, queue)


def set_default_queue(jobs: Iterable[Parameters], queue: str) -> None:
    """Give the objects of a CreateJobs that name no queue the queue of its header."""
    if queue:
        for parameters in jobs:
            if not parameters.get("queue"):
                parameters.values["queue"] = queue


async def ensure_name_lanes(service: Service, queues: Iterable[str]) -> None:
    """Divide queues by name, so that jobs can be taken by name. Waiting jobs move to their lanes before this returns.

    A queue gets lanes when a client first takes by name from it: other queues do not pay for them."""
    for queue in queues:
        if not (await service.configuration(queue)).name_lanes:
            await service.configure(queue, {"name_lanes": True})
