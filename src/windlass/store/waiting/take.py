"""Take jobs from one or several partitions, and wait for them without polling; with or without an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from windlass.core.errors import PartitionStopped, Refusal, WindlassError
from windlass.core.job import Job
from windlass.core.operations import LeaseRef, Take, Taken
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import reports
from windlass.store.commands.command import Flow
from windlass.store.commands.take import UNREGISTERED, TakeResult, WaitRegistration, filter_text, take
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, earliest, wait_async, wait_sync
from .wakeups import HANDED_OVER_TO

log = logging.getLogger("windlass.store")

T = TypeVar("T")
Acceptance: TypeAlias = Coroutine[Any, Any, int | None]  # of an accept command that was sent; raises a refusal
# Called with a job that came with a wakeup, and a function that accepts it. Returns True if the worker took the job.
Receive: TypeAlias = Callable[[Job, Callable[[], Acceptance]], bool]
FRESH_S = 1.0  # half of the time after which a job that was handed over is released (lua/lib/fast_path/handoff.lua)
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
    next_due_at_ms = earliest(partial.taken.next_due_at_ms for partial in partials)
    before = {job_id: at_ms for partial in partials for job_id, at_ms in partial.taken.started_before.items()}
    used_up = sum(partial.taken.used_up for partial in partials)
    return CombinedTake(Taken(jobs, next_due_at_ms, before, used_up), partials)


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


class _TakerPart(PartitionWait):
    """Waiting taker in one partition. Its worker may receive a direct handoff there; without a worker it does not."""

    __slots__ = ("_receive", "_store", "_zero_s", "is_served", "queues")

    def __init__(
        self, wait: _TakeWait, queues: PartitionQueues, wanted: str, worker: bytes, receive: Receive | None
    ) -> None:
        places = tuple((queue, wanted) for queue in queues.queues)
        super().__init__(queues.partition, places, wait.event, worker=worker)
        self.queues = queues
        self.is_served = False  # the job that came with the wakeup was received at once
        self._store = wait.store
        self._receive = receive
        self._zero_s = 0.0  # engine time 0 by the clock of this process, or earlier

    def note_result(self, found: TakeResult, since_s: float) -> None:
        self._zero_s = since_s - found.now_ms / 1000
        if found.taken.jobs:
            queues = {job.queue for job in found.taken.jobs}
            self.note_found(uses_wakeup=self.last_wakeup is not None and self.last_wakeup[0] in queues)

    def receive(self, job: Job) -> bool:
        """Pass the job to `receive` in the turn in which its wakeup is read. A job that arrives during a poll is
        returned by the take, if that poll found nothing."""
        if self._receive is None or not self.is_waiting or self._age_s(job) > FRESH_S:
            return False
        self.is_served = self._receive(job, lambda: self._store.start(_acceptance(job, self.partition)))
        if self.is_served:
            self.registered = frozenset(place for place in self.registered if place[0] != job.queue)
        return self.is_served

    def take_handed(self) -> Job | None:
        """Return the job that came with the wakeup. A job that was too long on its way is not returned: the engine may
        have released it, and another worker may have it."""
        job = self.handed
        if job is None or self._age_s(job) > FRESH_S:
            return None
        self.handed = None
        self.registered = frozenset(place for place in self.registered if place[0] != job.queue)
        return job

    def _age_s(self, job: Job) -> float:
        return time.monotonic() - self._zero_s - (job.started_at_ms or 0) / 1000


class _TakeWait(Wait[Taken]):
    """Wait for jobs in one or several partitions."""

    parts: Sequence[_TakerPart]

    def __init__(
        self,
        store: Store,
        request: Take,
        queues: Sequence[PartitionQueues],
        worker: bytes = b"",
        receive: Receive | None = None,
    ) -> None:
        super().__init__()
        self.store = store
        self._request = request
        self._queues = queues
        self._since_s = 0.0
        wanted = filter_text(request.wants)
        self.parts = [_TakerPart(self, part, wanted, worker, receive) for part in queues]

    def look(self, left_s: float) -> Flow[CombinedTake]:
        registrations = [part.registration(left_s, direct_handoff=bool(part.worker)) for part in self.parts]
        self._since_s = time.monotonic()
        return poll_flow(self._request, self._queues, registrations, waits=True)

    def read(self, found: CombinedTake) -> Look[Taken]:
        for part, partial in zip_longest(self.parts, found.partials):
            if partial is None:  # another partition had enough jobs
                part.note_skipped()
            else:
                part.note_result(partial, self._since_s)
        return Look(found.taken, found.taken.jobs, earliest(partial.due_in_s for partial in found.partials))

    def received(self, _is_woken: bool) -> Taken | None:
        for part in self.parts:
            if part.is_served:
                return Taken([], None)
        for part in self.parts:
            if (job := part.take_handed()) is not None:
                return Taken([job], None)
        return None


async def take_waiting(
    store: Store, request: Take, choose: Callable[[], list[PartitionQueues]], receive: Receive | None = None
) -> Taken:
    """Take jobs; wait for the first up to `request.wait_ms`. With `receive`, a job that is handed over goes to it when
    the wakeup is read, and the take returns no job."""
    await store.open()
    parts = choose()
    if request.wait_ms == 0:
        return (await take_once(store, poll_flow(request, parts, [UNREGISTERED] * len(parts)))).taken
    is_by_hand = request.by_hand and filter_text(request.wants) in HANDED_OVER_TO and not request.accept_ms
    worker = request.worker if is_by_hand else b""
    wait = _TakeWait(store, request, parts, worker, receive)
    return await wait_async(store, wait, request.wait_ms, lambda flow: take_once(store, flow))


def _acceptance(job: Job, partition: int) -> Flow[int | None]:
    answer = yield reports.accept_one(job.id, job.lease_token, partition)
    if isinstance(answer, Refusal):
        raise answer
    return answer  # type: ignore[no-any-return]


def take_waiting_sync(store: Store, request: Take, choose: Callable[[], list[PartitionQueues]]) -> Taken:
    store.open_sync()
    parts = choose()
    if request.wait_ms == 0:
        return store.run_sync(poll_flow(request, parts, [UNREGISTERED] * len(parts))).taken
    if len(parts) > 1:
        return _wait_in_new_loop(store, request, parts)
    return wait_sync(store, _TakeWait(store, request, parts), request.wait_ms)


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
