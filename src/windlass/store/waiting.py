"""Waiting without polling: for a job to take, and for a job's end. Each with and without an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

from ..core.errors import AlreadyEnded, Refusal, UnknownJob
from ..core.job import Ending
from ..core.requests import Exchanged, Held, Take, Taken
from ..core.states import State
from .bell import BLOCK_S, Listener, Place
from .calls import reading, reports, upkeep
from .calls.call import Flow
from .calls.take import UNREGISTERED, Partial, Registration, filter_text, take
from .scatter import scatter
from .store import Store

UPKEEP = ("", "")  # where the loops wait: no queue has an empty name
P = TypeVar("P", Partial, Exchanged)
GRACE_MS = 5_000  # a registration outlives the wait by this


def take_flow(
    request: Take, queues: list[str], partition: int, registration: Registration = UNREGISTERED
) -> Flow[Partial]:
    """One look at the queues of one partition; a long walk over lanes is continued until it is through."""
    resume = 0
    while True:
        found = yield take(request, queues, partition, registration, resume)
        if isinstance(found, Refusal):
            raise found
        if found.taken.jobs or not found.resume:
            return found  # type: ignore[no-any-return]
        resume = found.resume


def _registration(bell: str, left_s: float, others_wait: bool = False) -> Registration:
    return Registration(bell, int(min(left_s, BLOCK_S) * 1000) + GRACE_MS, others_wait)


def _pause_s(found: Partial, left_s: float) -> float:
    """Until the end of the wait, or until something may be due."""
    if found.taken.next_due_at_ms is None:
        return left_s
    return min(left_s, max(0, found.taken.next_due_at_ms - found.now_ms) / 1000)


async def take_once(store: Store, flow: Flow[P]) -> P:
    """A caller that is cancelled in the middle never sees its jobs: they are given back, no attempt spent."""
    call = asyncio.ensure_future(store.run(flow))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        store.in_background(_give_back(store, call))
        raise


async def _give_back(store: Store, call: asyncio.Future[P]) -> None:
    held = [Held(job.id, job.lease_token) for job in (await call).taken.jobs]
    if held:
        await store.run(scatter(held, lambda one: store.partition_of_job(one.id), reports.release))


async def take_waiting(store: Store, request: Take, queues: list[str], partition: int) -> Taken:
    await store.open()
    if request.wait_ms == 0:
        return (await take_once(store, take_flow(request, queues, partition))).taken
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    places = tuple((queue, filter_text(request.wants)) for queue in queues)
    registered: set[Place] = set()  # by earlier looks; a ring ends a registration
    rung: Place | None = None
    while True:
        listener = Listener(places)
        async with store.listening(partition, listener) as bell:
            owed: set[Place] = set(places)
            looks_again = False
            try:
                left_s = max(0.0, give_up_at_s - time.monotonic())
                registration = _registration(bell.name, left_s, bell.others_wait(listener))
                found = await take_once(store, take_flow(request, queues, partition, registration))
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs and not registration.others_wait:
                    owed = _without_used_ring(registered, rung, found)
                if found.taken.jobs or left_s <= 0:
                    return found.taken
                await _heard(listener.event, min(_pause_s(found, left_s), BLOCK_S))
                registered, rung = owed, listener.was_rung
                looks_again = True
            finally:
                if not looks_again:
                    bell.leave(listener, owed)


def _without_used_ring(registered: set[Place], rung: Place | None, found: Partial) -> set[Place]:
    """Where the engine may still ring, or has rung for something else than what was taken."""
    if rung is None or rung[0] not in {job.queue for job in found.taken.jobs}:
        return registered
    return registered - {rung}


async def _heard(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def take_waiting_now(store: Store, request: Take, queues: list[str], partition: int) -> Taken:
    store.open_now()
    if request.wait_ms == 0:
        return store.run_now(take_flow(request, queues, partition)).taken
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    wanted = filter_text(request.wants)
    registered: set[Place] = set()
    rung: Place | None = None
    with store.listening_now(partition) as bell:
        while True:
            left_s = max(0.0, give_up_at_s - time.monotonic())
            found = store.run_now(take_flow(request, queues, partition, _registration(bell.name, left_s)))
            left_s = give_up_at_s - time.monotonic()
            if not found.taken.jobs:
                registered = {(queue, wanted) for queue in queues}
            if found.taken.jobs or left_s <= 0:
                for queue, _ in _without_used_ring(registered, rung, found):
                    store.run_now(_pass_ring_flow(bell.name, queue, wanted, partition))
                return found.taken
            message = bell.wait(_pause_s(found, left_s))
            rung = (message[1:].decode().partition("\1")[0], wanted) if message[:1] == b"Q" else None


def _pass_ring_flow(bell: str, queue: str, wanted: str, partition: int) -> Flow[bool]:
    return (yield upkeep.pass_ring(bell, queue, (wanted,), partition))  # type: ignore[no-any-return]


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
    return (yield reading.result(job_id, consume, bell, partition, leaves=leaves))


async def result_waiting(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    await store.open()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    listener = Listener(job_id=job_id)
    async with store.listening(partition, listener) as bell:
        while True:
            listener.event.clear()
            answer = await store.run(_result_flow(job_id, consume, bell.name if wait_ms else "", partition))
            ending = _ended(answer, listener.ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None or left_s <= 0:
                return ending
            await _heard(listener.event, left_s)


def result_waiting_now(store: Store, job_id: bytes, consume: bool, wait_ms: int) -> Ending | None:
    store.open_now()
    partition = store.partition_of_job(job_id)
    give_up_at_s = time.monotonic() + wait_ms / 1000
    ended_as = 0
    with store.listening_now(partition) as bell:
        while True:
            answer = store.run_now(_result_flow(job_id, consume, bell.name if wait_ms else "", partition))
            ending = _ended(answer, ended_as)
            left_s = give_up_at_s - time.monotonic()
            if ending is not None:
                return ending
            if left_s <= 0:
                if wait_ms:
                    store.run_now(_result_flow(job_id, False, bell.name, partition, leaves=True))
                return None
            message = bell.wait(left_s)
            if message[:1] == b"E":
                ended_as = int(message[17:])


async def upkeep_waiting(store: Store, for_s: float) -> bool:
    """Until something is due, at the latest after the given time. True when it was rung: earlier than anybody knew."""
    await store.open()
    listener = Listener((UPKEEP,))
    async with store.listening(0, listener) as bell:
        # What became due between the loops' turn and this registration rang nobody: it is answered here.
        now_ms, next_at_ms = await store.run(_listen_flow(bell.name, for_s))
        left_s = for_s if next_at_ms is None else max(0.0, (next_at_ms - now_ms) / 1000)
        return await _heard(listener.event, min(for_s, left_s))


def _listen_flow(bell: str, for_s: float) -> Flow[Any]:
    return (yield upkeep.listen(bell, int(for_s * 1000), 0))
