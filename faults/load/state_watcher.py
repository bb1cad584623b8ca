"""A client that follows the events of jobs and records the states that they enter.

It sees the leases of front ends that name none to their workers: pushes, and the processor. A job of Bedrock may stay
in its state when its lease has expired, so it cannot be judged by states; its takes are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from windlass.core.errors import WindlassError
from windlass.core.event import Event, EventKind
from windlass.core.ids import format_id
from windlass.service import Service

from ..history import JobFacts
from .context import ClientContext

POLL_S = 0.5
MISSED = "missed"  # events may be missing: the states are unknown until then


async def watch_states(context: ClientContext, service: Service, queues: Collection[str]) -> None:
    while not context.is_over:
        context.recorder.record_event("state", [JobFacts(outcome=MISSED)])
        with contextlib.suppress(WindlassError, OSError):
            await _follow(context, service, queues)
        await context.pause(0.2)


async def _follow(context: ClientContext, service: Service, queues: Collection[str]) -> None:
    async with service.follow() as follower:
        while not context.is_over:
            with contextlib.suppress(TimeoutError):
                if facts := _facts(await asyncio.wait_for(follower.next(), POLL_S), queues):
                    context.recorder.record_event("state", [facts])


def _facts(event: Event, queues: Collection[str]) -> JobFacts | None:
    if event.kind is EventKind.MISSED:
        return JobFacts(outcome=MISSED)
    if event.kind.state is None or event.queue not in queues:
        return None
    return JobFacts(
        id=format_id(event.job), queue=event.queue, outcome=event.kind.label, attempt=event.attempt,
        leased_at_ms=event.at_ms,
    )  # fmt: skip
