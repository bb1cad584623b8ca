"""Waiting without polling: for a job's end, and for due maintenance."""

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


def _ending_of(answer: Ending | Refusal, ended_as: int) -> Ending | None:
    """Return the job's ending, or None if it has not ended. If the record is gone, the state comes from the wakeup."""
    if isinstance(answer, AlreadyEnded | UnknownJob):
        if not ended_as:
            raise answer
        if not State(ended_as).is_ended:
            raise UnknownJob("The job was deleted during the wait for its end.")
        return Ending(state=State(ended_as))
    if isinstance(answer, Refusal):
        raise answer
    return answer if answer.state.is_ended else None


def _result_flow(job_id: bytes, consume: bool, wakeup_list: str, partition: int, *, leaves: bool = False) -> Flow[Any]:
    return (yield jobs.result(job_id, consume, wakeup_list, partition, leaves=leaves))


async def wait_for_result(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    await store.open()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    listener = Listener(job_id=job_id)
    async with store.wakeups.listen(partition, listener) as wakeups:
        while True:
            listener.event.clear()
            answer = await store.run(_result_flow(job_id, consume, wakeups.name if wait_ms else "", partition))
            ending = _ending_of(answer, listener.ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None or left_s <= 0:
                return ending
            await wait_for_event(listener.event, left_s)


def wait_for_result_sync(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    store.open_sync()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    ended_as = 0
    with store.wakeups.listen_sync(partition) as wakeups:
        while True:
            answer = store.run_sync(_result_flow(job_id, consume, wakeups.name if wait_ms else "", partition))
            ending = _ending_of(answer, ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None:
                return ending
            if left_s <= 0:
                if wait_ms:
                    store.run_sync(_result_flow(job_id, False, wakeups.name, partition, leaves=True))
                return None
            message = wakeups.wait(left_s)
            if message[:1] == b"E":
                ended_as = int(message[17:])


async def wait_for_maintenance(store: Store, partitions: Sequence[int], for_s: float) -> bool:
    """Wait until maintenance is due in one of the partitions, or for `for_s` seconds. Return True if a wakeup ended the
    wait: something is due earlier than the first reply said."""
    event = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        listened = [
            (
                await stack.enter_async_context(store.wakeups.listen(partition, Listener((MAINTENANCE,), event=event))),
                partition,
            )
            for partition in partitions
        ]
        # Work that became due between the last run of the loops and this registration caused no wakeup: the reply
        # reports it.
        answers = await store.run(_listen_flow([(wakeups.name, partition) for wakeups, partition in listened], for_s))
        due_in_s = [max(0, next_at_ms - now_ms) / 1000 for now_ms, next_at_ms in answers if next_at_ms is not None]
        return await wait_for_event(event, min([for_s, *due_in_s]))


def _listen_flow(wakeup_lists: Sequence[tuple[str, int]], for_s: float) -> Flow[list[tuple[int, int | None]]]:
    return (yield [maintenance.listen(name, int(for_s * 1000), partition) for name, partition in wakeup_lists])  # type: ignore[no-any-return]
