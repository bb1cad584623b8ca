"""Creates very many jobs quickly, for long lists."""

from __future__ import annotations

import asyncio

from windlass.core.job import Blob, NewJob
from windlass.service import Service

AT_ONCE = 1_000
SIDE_BY_SIDE = 10


async def enqueue_many(service: Service, queue: str, count: int) -> None:
    """Enqueue jobs with their number as payload. Every hundredth job is named and tagged `rare`."""
    for start in range(0, count, AT_ONCE * SIDE_BY_SIDE):
        starts = range(start, min(start + AT_ONCE * SIDE_BY_SIDE, count), AT_ONCE)
        parts = [[_job(queue, number) for number in range(at, min(at + AT_ONCE, count))] for at in starts]
        answers = await asyncio.gather(*(service.enqueue(part) for part in parts))
        assert not any(isinstance(added, Exception) for answer in answers for added in answer)


def _job(queue: str, number: int) -> NewJob:
    is_rare = number % 100 == 99
    name = "rare" if is_rare else "usual"
    return NewJob(queue=queue, name=name, payload=Blob(b'{"number":%d}' % number), tags=("rare",) if is_rare else ())
