"""A great many jobs, made fast: for lists that nobody can see the end of."""

from __future__ import annotations

import asyncio

from windlass.core.job import Blob, NewJob
from windlass.service import Service

AT_ONCE = 1_000
SIDE_BY_SIDE = 10


async def crowd(service: Service, queue: str, count: int) -> None:
    """Every hundredth is a `rare` one, and is tagged so; each knows its number."""
    for start in range(0, count, AT_ONCE * SIDE_BY_SIDE):
        starts = range(start, min(start + AT_ONCE * SIDE_BY_SIDE, count), AT_ONCE)
        parts = [[_job(queue, number) for number in range(at, min(at + AT_ONCE, count))] for at in starts]
        answers = await asyncio.gather(*(service.enqueue(part) for part in parts))
        assert not any(isinstance(one, Exception) for answer in answers for one in answer)


def _job(queue: str, number: int) -> NewJob:
    is_rare = number % 100 == 99
    name = "rare" if is_rare else "usual"
    return NewJob(queue=queue, name=name, payload=Blob(b'{"number":%d}' % number), tags=("rare",) if is_rare else ())
