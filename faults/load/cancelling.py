"""Somebody who changes their mind: enqueues a job and cancels it a little later, when it may run already."""

from __future__ import annotations

import msgspec

from windlass.core.ids import parse_id
from windlass.service import Service

from ..history import Seen
from .by_engine import EngineCounter, asked
from .life import Life, Refused, Unanswered
from .wishes import Menu, Wish, Wishes

LATEST_S = 0.05


async def change_minds(life: Life, service: Service, menu: Menu, *, pause_s: float = 0.05) -> None:
    wishes, counter = Wishes(life, menu), EngineCounter(service)
    while not life.is_over:
        wish = msgspec.structs.replace(wishes.some()[0], delay_ms=life.random.choice((0, 20, 500)))
        async with life.surviving():
            job = await _enqueued(life, counter, wish)
            await life.pause(life.random.random() * LATEST_S)
            await _cancel(life, service, job)
        await life.pause(pause_s * 2 * life.random.random())


async def _enqueued(life: Life, counter: EngineCounter, wish: Wish) -> Seen:
    pending = life.recorder.begin("enqueue", [wish.seen()])
    try:
        (job,) = await counter.enqueue([wish])
    except Refused as refused:
        pending.refused(refused.code)
        raise
    except Unanswered as trouble:
        pending.unknown(str(trouble))
        raise
    pending.ok([job])
    return msgspec.structs.replace(job, key=wish.key)


async def _cancel(life: Life, service: Service, job: Seen) -> None:
    pending = life.recorder.begin("cancel", [Seen(key=job.key, id=job.id)])
    try:
        outcome = await asked(service.cancel([parse_id(job.id)]).one())
    except Refused as refused:
        pending.refused(refused.code)
    except Unanswered as trouble:
        pending.unknown(str(trouble))
    else:
        pending.ok([Seen(outcome=outcome)])
