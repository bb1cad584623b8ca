"""Waiting without polling for a job's end, and for something that is due. Each with and without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.job import Ending
from windlass.core.states import State
from windlass.store.commands import jobs
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.store import Store

from .wakeups import MAINTENANCE, Listener, wait_for_event


def _ended(answer: Ending | Refusal, ended_as: int) -> Ending | None:
    """The end of a job when it is known: from its record, or from the ring when the record is gone."""
    if isinstance(answer, AlreadyEnded | UnknownJob):
        if not ended_as:
            raise answer
        if not State(ended_as).is_ended:
            raise UnknownJob("The job was deleted while it was awaited.")
        return Ending(state=State(ended_as))
    if isinstance(answer, Refusal):
        raise answer
    return answer if answer.state.is_ended else None


def _result_flow(job_id: bytes, consume: bool, bell: str, partition: int, *, leaves: bool = False) -> Flow[Any]:
    return (yield jobs.result(job_id, consume, bell, partition, leaves=leaves))


async def result_waiting(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    await store.open()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    listener = Listener(job_id=job_id)
    async with store.wakeups.listen(partition, listener) as bell:
        while True:
            listener.event.clear()
            answer = await store.run(_result_flow(job_id, consume, bell.name if wait_ms else "", partition))
            ending = _ended(answer, listener.ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None or left_s <= 0:
                return ending
            await wait_for_event(listener.event, left_s)


def result_waiting_now(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    store.open_sync()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    ended_as = 0
    with store.wakeups.listen_sync(partition) as bell:
        while True:
            answer = store.run_sync(_result_flow(job_id, consume, bell.name if wait_ms else "", partition))
            ending = _ended(answer, ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None:
                return ending
            if left_s <= 0:
                if wait_ms:
                    store.run_sync(_result_flow(job_id, False, bell.name, partition, leaves=True))
                return None
            message = bell.wait(left_s)
            if message[:1] == b"E":
                ended_as = int(message[17:])


async def wait_for_maintenance(store: Store, homes: Sequence[int], for_s: float) -> bool:
    """Until something is due in one of the partitions, at the latest after the given time. True when that is earlier
    than was known at first."""
    event = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        bells = [
            (await stack.enter_async_context(store.wakeups.listen(home, Listener((MAINTENANCE,), event=event))), home)
            for home in homes
        ]
        # What became due between the loops' turn and this registration rang nobody: it is answered here.
        answers = await store.run(_listen_flow([(bell.name, home) for bell, home in bells], for_s))
        due_in_s = [max(0, next_at_ms - now_ms) / 1000 for now_ms, next_at_ms in answers if next_at_ms is not None]
        return await wait_for_event(event, min([for_s, *due_in_s]))


def _listen_flow(bells: Sequence[tuple[str, int]], for_s: float) -> Flow[list[tuple[int, int | None]]]:
    return (yield [maintenance.listen(bell, int(for_s * 1000), home) for bell, home in bells])  # type: ignore[no-any-return]
