"""Search for ids by their beginning or end, through the indexes of many queues, within a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.core.ids import IdPart

from .commands import numbers
from .commands.command import Command, Flow
from .commands.numbers import IdMatches

LOOKED_AT_MAX = 100_000  # members of indexes, in one search
READ_AT_ONCE = 5_000  # by one call, which the engine runs in a few milliseconds
QUEUES_AT_ONCE = 50


class IdScan(NamedTuple):
    """Ids that were found. A job may be found in two indexes, and changes its index while the search runs."""

    ids: list[bytes]
    looked_at: int
    is_complete: bool  # False: not all members were examined


Pending = deque[tuple[str, int]]  # queues with the position of each


def scan_ids(part: IdPart, queues: Sequence[str], partition_of: Callable[[str], int], most: int) -> Flow[IdScan]:
    """Search the indexes of the queues, each from its newest end, until more than `most` ids were found.

    All queues are read equally far, a partition by one call at a time, so that others' calls run in between."""
    pending: dict[int, Pending] = {}
    for queue in queues:
        pending.setdefault(partition_of(queue), deque()).append((queue, 0))
    ids: dict[bytes, None] = {}
    looked_at, is_full = 0, False
    while pending and looked_at < LOOKED_AT_MAX and not is_full:
        share = (LOOKED_AT_MAX - looked_at) // sum(len(waiting) for waiting in pending.values())
        share = max(1, min(share, READ_AT_ONCE))
        steps = {partition: _next_queues(waiting, share) for partition, waiting in pending.items()}
        replies: list[IdMatches] = yield [_command(part, step, share, most, at) for at, step in steps.items()]
        for (partition, step), found in zip(steps.items(), replies, strict=True):
            ids.update(dict.fromkeys(found.ids))
            looked_at += found.looked_at
            # A call that has found so many has not examined the rest.
            is_full = is_full or len(ids) > most or len(found.ids) > most
            pending[partition].extend(_unfinished(step, found))
        pending = {partition: waiting for partition, waiting in pending.items() if waiting}
    return IdScan(list(ids), looked_at, not pending and not is_full)


def _next_queues(waiting: Pending, share: int) -> list[tuple[str, int]]:
    number = max(1, min(QUEUES_AT_ONCE, READ_AT_ONCE // share, len(waiting)))
    return [waiting.popleft() for _ in range(number)]


def _command(part: IdPart, step: Sequence[tuple[str, int]], share: int, most: int, at: int) -> Command[IdMatches]:
    return numbers.match_ids(part, step, most + 1, share, at)


def _unfinished(step: Sequence[tuple[str, int]], found: IdMatches) -> list[tuple[str, int]]:
    positions = zip(step, found.positions, strict=True)
    return [(queue, position) for (queue, _), position in positions if position is not None]
