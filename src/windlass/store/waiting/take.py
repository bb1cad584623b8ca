"""Take jobs from one or several partitions, and wait for them without polling; with or without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from windlass.core.errors import PartitionStopped, Refusal, WindlassError
from windlass.core.job import Job
from windlass.core.operations import ANY_JOB, LeaseRef, Take, Taken
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import reports
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import UNREGISTERED, TakeResult, WaitRegistration, filter_text, take
from windlass.store.store import Store

from .wakeups import BLOCK_S, Listener, Place, Wakeups, wait_for_event

log = logging.getLogger("windlass.store")

T = TypeVar("T")
Acceptance: TypeAlias = Coroutine[Any, Any, int | None]  # of an accept command that was sent; raises a refusal
# Called with a job that came with a wakeup, and a function that accepts it. Returns True if the worker took the job.
Receive: TypeAlias = Callable[[Job, Callable[[], Acceptance]], bool]
GRACE_MS = 5_000  # a registration outlives the wait by this
FRESH_S = 1.0  # half of the time after which a job that was handed over is released (lua/lib/fast_path/plain_hand.lua)
STOPPED_POLL_MS = 5_000  # pause of a waiting taker before it polls a partition with stopped takers again


class PartitionQueues(NamedTuple):
    """Queues of a take in one partition, in their order."""

    partition: int
    queues: list[str]


class CombinedTake(NamedTuple):
    """Result of one poll of several partitions. `partials` has one result per partition polled."""

    taken: Taken
    partials: list[TakeResult]


def group_by_partition(store: Store, queues: Sequence[str]) -> list[PartitionQueues]:
    """Group queues by partition, in the order of the first queue of each."""
    found: dict[int, list[str]] = {}
    for queue in queues:
        found.setdefault(store.partition_of_queue(queue), []).append(queue)
    return [PartitionQueues(*item) for item in found.items()]


def take_flow(
    request: Take, queues: list[str], partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[TakeResult]:
    """Poll the queues of one partition once. A long scan over lanes continues until it is complete."""
    resume = 0
    while True:
        found = yield take(request, queues, partition, registration, resume)
        if isinstance(found, Refusal):
            raise found
        if found.taken.jobs or not found.resume:
            return found  # type: ignore[no-any-return]
        resume = found.resume


def poll_flow(
    request: Take, parts: Sequence[PartitionQueues], registrations: Sequence[WaitRegistration], *, waits: bool = False
) -> Flow[CombinedTake]:
    """Poll partitions in the given order until there are enough jobs. An error in one partition does not lose the jobs
    of another."""
    partials: list[TakeResult] = []
    problem: WindlassError | None = None
    left = request.most
    for part, registration in zip(parts, registrations, strict=True):
        if left == 0:
            break
        wanted = request if left == request.most else msgspec.structs.replace(request, most=left)
        try:
            partial = yield from take_flow(wanted, part.queues, part.partition, registration)
        except WindlassError as error:
            partial = TakeResult(Taken([], None), 0, 0)
            if waits and isinstance(error, PartitionStopped):
                log.warning("Cannot take jobs from %s: %s Trying again.", ", ".join(part.queues), error)
                partial = TakeResult(Taken([], STOPPED_POLL_MS), 0, 0)
            elif len(parts) == 1:
                raise
            else:
                problem = problem or error
        partials.append(partial)
        left -= len(partial.taken.jobs)
    return _combine(partials, problem)


def _combine(partials: list[TakeResult], problem: WindlassError | None) -> CombinedTake:
    jobs = [job for partial in partials for job in partial.taken.jobs]
    if problem is not None:
        if not jobs:
            raise problem
        log.warning("Could not take from some of the queues; jobs of the others were taken: %s", problem)
    due = [partial.taken.next_due_at_ms for partial in partials if partial.taken.next_due_at_ms is not None]
    before = {job_id: at_ms for partial in partials for job_id, at_ms in partial.taken.started_before.items()}
    used_up = sum(partial.taken.used_up for partial in partials)
    return CombinedTake(Taken(jobs, min(due, default=None), before, used_up), partials)


def _registration(
    wakeup_list: str, left_s: float, others_wait: bool = False, direct_handoff: bool = False
) -> WaitRegistration:
    return WaitRegistration(wakeup_list, int(min(left_s, BLOCK_S) * 1000) + GRACE_MS, others_wait, direct_handoff)


def _pause_s(found: CombinedTake, left_s: float) -> float:
    """Return the seconds until a job may be due in one of the partitions, by its own clock; at most `left_s`."""
    due_in_ms = [
        max(0, partial.taken.next_due_at_ms - partial.now_ms)
        for partial in found.partials
        if partial.taken.next_due_at_ms is not None
    ]
    return min([left_s, *(ms / 1000 for ms in due_in_ms)])


def take_at_once(store: Store, flow: Flow[T]) -> Coroutine[Any, Any, T]:
    """Do as `take_once`, but send the command before this returns, if possible: ahead of other operations of this turn
    of the event loop."""
    return _take_shielded(store, asyncio.ensure_future(store.start(flow)))


def take_once(store: Store, flow: Flow[T]) -> Coroutine[Any, Any, T]:
    """Take once, in order with other operations: a wait that has just ended withdraws its registration, and that must
    not come after the registration of the next poll."""
    return _take_shielded(store, asyncio.ensure_future(store.run(flow)))


async def _take_shielded(store: Store, call: asyncio.Future[T]) -> T:
    """Wait for the call. If the caller is cancelled, release the jobs that it never saw; no attempt is spent."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        store.run_in_background(_give_back(store, call))
        raise


async def _give_back(store: Store, call: asyncio.Future[Any]) -> None:
    held = [LeaseRef(job.id, job.lease_token) for job in (await call).taken.jobs]
    if held:
        await store.run(split_by_partition(held, lambda lease: store.partition_of_job(lease.id), reports.release))


class _PartitionWait:
    """State of a waiting taker in one partition. `worker` may receive a direct handoff there; empty: no handoff."""

    def __init__(
        self, store: Store, part: PartitionQueues, wanted: str, worker: bytes = b"", receive: Receive | None = None
    ) -> None:
        self._store = store
        self.part = part
        self.worker = worker
        self._receive = receive
        self.is_waiting = False  # for a wakeup, after a poll that found nothing
        self.is_served = False  # the job that came with the wakeup was received at once
        self._zero_s = 0.0  # engine time 0 by the clock of this process, or earlier
        self.places: tuple[Place, ...] = tuple((queue, wanted) for queue in part.queues)
        self.earlier: set[Place] = set()  # registered by earlier polls; a wakeup ends a registration
        self.woken_place: Place | None = None  # of the wakeup that led to this poll
        self.registered: set[Place] = set()  # where the engine may still have this process registered
        self.wakeups: Wakeups
        self.listener: Listener

    async def listen(self, store: Store, event: asyncio.Event, stack: contextlib.AsyncExitStack) -> None:
        receive = self._receive_now if self._receive else None
        self.listener = Listener(self.places, event=event, worker=self.worker, receive=receive)
        self.wakeups = await stack.enter_async_context(store.wakeups.listen(self.part.partition, self.listener))
        self.registered = set(self.places)

    def registration(self, left_s: float) -> WaitRegistration:
        return _registration(self.wakeups.name, left_s, self.wakeups.others_wait(self.listener), bool(self.worker))

    def after_poll(self, found: TakeResult | None, registration: WaitRegistration, since_s: float) -> None:
        """Update the state after a poll. `found` is None if this partition was not polled: another had enough jobs."""
        if found is not None:
            self._zero_s = since_s - found.now_ms / 1000
        if found is None or (found.taken.jobs and not registration.others_wait):
            self.registered = _without_used_wakeup(self.earlier, self.woken_place, found)

    def before_next_poll(self) -> None:
        self.earlier, self.woken_place = self.registered, self.listener.woken_place
        if self.listener.handed is not None:
            self.wakeups.give_back(self.listener.handed)

    def _receive_now(self, job: Job) -> bool:
        """Pass the job to `receive` in the turn in which its wakeup is read. A job that arrives during a poll is
        returned by the take, if that poll found nothing."""
        if self._receive is None or not self.is_waiting or self._age_s(job) > FRESH_S:
            return False
        self.is_served = self._receive(job, lambda: self._store.start(_acceptance(job, self.part.partition)))
        if self.is_served:
            self.registered = self.registered - {(job.queue, "")}
        return self.is_served

    def take_handed(self) -> Job | None:
        """Return the job that came with the wakeup. A job that was too long on its way is not returned: the engine may
        have released it, and another worker may have it."""
        job = self.listener.handed
        if job is None or self._age_s(job) > FRESH_S:
            return None
        self.listener.handed = None
        self.registered = self.registered - {(job.queue, "")}
        return job

    def _age_s(self, job: Job) -> float:
        return time.monotonic() - self._zero_s - (job.started_at_ms or 0) / 1000

    def leave(self) -> None:
        if self.listener.handed is not None:
            self.wakeups.give_back(self.listener.handed)
        self.wakeups.leave(self.listener, self.registered)


async def take_waiting(
    store: Store, request: Take, choose: Callable[[], list[PartitionQueues]], receive: Receive | None = None
) -> Taken:
    """Take jobs; wait for the first up to `request.wait_ms`. With `receive`, a job that is handed over goes to it when
    the wakeup is read, and the take returns no job."""
    await store.open()
    parts = choose()
    if request.wait_ms == 0:
        return (await take_once(store, poll_flow(request, parts, [UNREGISTERED] * len(parts)))).taken
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    worker = request.worker if request.by_hand and request.wants == ANY_JOB and not request.accept_ms else b""
    waits = [_PartitionWait(store, part, filter_text(request.wants), worker, receive) for part in parts]
    while True:
        event = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            polls_again = False
            for wait in waits:
                await wait.listen(store, event, stack)
            try:
                found = await _poll(store, request, waits, give_up_at_s)
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs or left_s <= 0:
                    return found.taken
                await _wait_for_wakeup(event, waits, min(_pause_s(found, left_s), BLOCK_S))
                if any(wait.is_served for wait in waits):
                    return Taken([], None)
                for wait in waits:
                    if (job := wait.take_handed()) is not None:
                        return Taken([job], None)
                    wait.before_next_poll()
                polls_again = True
            finally:
                if not polls_again:
                    for wait in waits:
                        wait.leave()


def _acceptance(job: Job, partition: int) -> Flow[int | None]:
    answer = yield reports.accept_one(job.id, job.lease_token, partition)
    if isinstance(answer, Refusal):
        raise answer
    return answer  # type: ignore[no-any-return]


async def _wait_for_wakeup(event: asyncio.Event, waits: Sequence[_PartitionWait], within_s: float) -> None:
    for wait in waits:
        wait.is_waiting = True
    try:
        await wait_for_event(event, within_s)
    finally:
        for wait in waits:
            wait.is_waiting = False


async def _poll(store: Store, request: Take, waits: Sequence[_PartitionWait], give_up_at_s: float) -> CombinedTake:
    left_s = max(0.0, give_up_at_s - time.monotonic())
    registrations = [wait.registration(left_s) for wait in waits]
    parts = [wait.part for wait in waits]
    since_s = time.monotonic()
    found = await take_once(store, poll_flow(request, parts, registrations, waits=True))
    for index, (wait, registration) in enumerate(zip(waits, registrations, strict=True)):
        wait.after_poll(found.partials[index] if index < len(found.partials) else None, registration, since_s)
    return found


def _without_used_wakeup(registered: set[Place], woken_place: Place | None, found: TakeResult | None) -> set[Place]:
    """Return the places where the engine may still send a wakeup, or sent one for a job that was not taken."""
    if woken_place is None or found is None or woken_place[0] not in {job.queue for job in found.taken.jobs}:
        return registered
    return registered - {woken_place}


def take_waiting_sync(store: Store, request: Take, choose: Callable[[], list[PartitionQueues]]) -> Taken:
    store.open_sync()
    parts = choose()
    if request.wait_ms == 0:
        return store.run_sync(poll_flow(request, parts, [UNREGISTERED] * len(parts))).taken
    if len(parts) > 1:
        return _wait_in_new_loop(store, request, parts)
    return _wait_in_one_partition(store, request, parts[0])


def _wait_in_one_partition(store: Store, request: Take, part: PartitionQueues) -> Taken:
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    wanted = filter_text(request.wants)
    registered: set[Place] = set()
    woken_place: Place | None = None
    with store.wakeups.listen_sync(part.partition) as wakeups:
        while True:
            left_s = max(0.0, give_up_at_s - time.monotonic())
            registration = _registration(wakeups.name, left_s)
            found = store.run_sync(poll_flow(request, [part], [registration], waits=True))
            left_s = give_up_at_s - time.monotonic()
            if not found.taken.jobs:
                registered = {(queue, wanted) for queue in part.queues}
            if found.taken.jobs or left_s <= 0:
                for queue, _ in _without_used_wakeup(registered, woken_place, found.partials[0]):
                    store.run_sync(_pass_wakeup_flow(wakeups.name, queue, wanted, part.partition))
                return found.taken
            message = wakeups.wait(_pause_s(found, left_s))
            woken_place = (message[1:].decode().partition("\1")[0], wanted) if message[:1] == b"Q" else None


def _pass_wakeup_flow(wakeup_list: str, queue: str, wanted: str, partition: int) -> Flow[bool]:
    return (yield maintenance.pass_wakeup(wakeup_list, queue, (wanted,), partition))  # type: ignore[no-any-return]


def _wait_in_new_loop(store: Store, request: Take, parts: list[PartitionQueues]) -> Taken:
    """Wait in an event loop of a new thread: several partitions need several blocking reads at once."""
    outcome: list[Taken | BaseException] = []

    async def wait() -> Taken:
        async with store.clone() as clone:
            return await take_waiting(clone, request, lambda: parts)

    def run() -> None:
        try:
            outcome.append(asyncio.run(wait()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="windlass-take", daemon=True)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
