"""Taking, and waiting without polling for a job to take, from one partition or several; with an event loop or none."""

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
from windlass.core.operations import ANY_JOB, Fail, Finish, LeaseRef, Take, Taken
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import reports
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import UNREGISTERED, TakeResult, WaitRegistration, filter_text, take
from windlass.store.store import Store

from .wakeups import BLOCK_S, Listener, Place, Wakeups, wait_for_event

log = logging.getLogger("windlass.store")

T = TypeVar("T")
O = TypeVar("O", Finish, Fail)  # noqa: E741 (an outcome)
Acceptance: TypeAlias = Coroutine[Any, Any, int | None]  # on its way; a refusal is raised
# Who is given a job at once, and what accepts it. True: it is in good hands.
Receive: TypeAlias = Callable[[Job, Callable[[], Acceptance]], bool]
GRACE_MS = 5_000  # a registration outlives the wait by this
FRESH_S = 1.0  # half of the time after which a job that was handed over goes back (lua/lib/fast_path/plain_hand.lua)
STOPPED_LOOK_MS = 5_000  # how soon a waiting taker looks again at a partition whose takers are stopped


class PartitionQueues(NamedTuple):
    """The queues of a take that are at home in one partition, in their order."""

    partition: int
    queues: list[str]


class CombinedTake(NamedTuple):
    """What a look at several partitions gave: one answer per partition that was looked at."""

    taken: Taken
    partials: list[TakeResult]


def group_by_partition(store: Store, queues: Sequence[str]) -> list[PartitionQueues]:
    """By partition, in the order of their first queues."""
    found: dict[int, list[str]] = {}
    for queue in queues:
        found.setdefault(store.partition_of_queue(queue), []).append(queue)
    return [PartitionQueues(*item) for item in found.items()]


def take_flow(
    request: Take, queues: list[str], partition: int, registration: WaitRegistration = UNREGISTERED
) -> Flow[TakeResult]:
    """One look at the queues of one partition; a long walk over lanes is continued until it is through."""
    resume = 0
    while True:
        found = yield take(request, queues, partition, registration, resume)
        if isinstance(found, Refusal):
            raise found
        if found.taken.jobs or not found.resume:
            return found  # type: ignore[no-any-return]
        resume = found.resume


def look_flow(
    request: Take, parts: Sequence[PartitionQueues], registrations: Sequence[WaitRegistration], *, waits: bool = False
) -> Flow[CombinedTake]:
    """One call per partition in the order given, until there are enough jobs. What goes wrong in one partition does not
    take away what another gave."""
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
                log.warning("Nothing is taken from %s: %s", ", ".join(part.queues), error)
                partial = TakeResult(Taken([], STOPPED_LOOK_MS), 0, 0)
            elif len(parts) == 1:
                raise
            else:
                problem = problem or error
        partials.append(partial)
        left -= len(partial.taken.jobs)
    return _found(partials, problem)


def _found(partials: list[TakeResult], problem: WindlassError | None) -> CombinedTake:
    jobs = [job for partial in partials for job in partial.taken.jobs]
    if problem is not None:
        if not jobs:
            raise problem
        log.warning("Some of the queues could not be looked at: %s", problem)
    due = [partial.taken.next_due_at_ms for partial in partials if partial.taken.next_due_at_ms is not None]
    before = {job_id: at_ms for partial in partials for job_id, at_ms in partial.taken.started_before.items()}
    used_up = sum(partial.taken.used_up for partial in partials)
    return CombinedTake(Taken(jobs, min(due, default=None), before, used_up), partials)


def _registration(bell: str, left_s: float, others_wait: bool = False, by_hand: bool = False) -> WaitRegistration:
    return WaitRegistration(bell, int(min(left_s, BLOCK_S) * 1000) + GRACE_MS, others_wait, by_hand)


def _pause_s(found: CombinedTake, left_s: float) -> float:
    """Until the end of the wait, or until something may be due in one of the partitions, by its own clock."""
    due_in_ms = [
        max(0, partial.taken.next_due_at_ms - partial.now_ms)
        for partial in found.partials
        if partial.taken.next_due_at_ms is not None
    ]
    return min([left_s, *(ms / 1000 for ms in due_in_ms)])


def take_at_once(store: Store, flow: Flow[T]) -> Coroutine[Any, Any, T]:
    """As `take_once`, on its way when this returns, if it can be: before what others have asked for in this turn."""
    return _taken_once(store, asyncio.ensure_future(store.start(flow)))


def take_once(store: Store, flow: Flow[T]) -> Coroutine[Any, Any, T]:
    """In its turn: a wait that has just ended takes its registration back, which must not come after the next look has
    registered anew."""
    return _taken_once(store, asyncio.ensure_future(store.run(flow)))


async def _taken_once(store: Store, call: asyncio.Future[T]) -> T:
    """A caller that is cancelled in the middle never sees its jobs: they are given back, no attempt spent."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        store.run_in_background(_give_back(store, call))
        raise


async def _give_back(store: Store, call: asyncio.Future[Any]) -> None:
    held = [LeaseRef(job.id, job.lease_token) for job in (await call).taken.jobs]
    if held:
        await store.run(split_by_partition(held, lambda one: store.partition_of_job(one.id), reports.release))


class _PartitionWait:
    """Where a waiting taker stands in one partition. `worker` is who may be handed a job there; empty: nobody."""

    def __init__(
        self, store: Store, part: PartitionQueues, wanted: str, worker: bytes = b"", receive: Receive | None = None
    ) -> None:
        self._store = store
        self.part = part
        self.worker = worker
        self._receive = receive
        self.is_waiting = False  # for a ring, after a look that found nothing
        self.is_served = False  # what came with the ring was received at once
        self._zero_s = 0.0  # the engine's instant 0 by the clock of this process, or earlier
        self.places: tuple[Place, ...] = tuple((queue, wanted) for queue in part.queues)
        self.registered: set[Place] = set()  # by earlier looks; a ring ends a registration
        self.rung: Place | None = None
        self.owed: set[Place] = set()
        self.bell: Wakeups
        self.listener: Listener

    async def listen(self, store: Store, event: asyncio.Event, stack: contextlib.AsyncExitStack) -> None:
        receive = self._received if self._receive else None
        self.listener = Listener(self.places, event=event, worker=self.worker, receive=receive)
        self.bell = await stack.enter_async_context(store.wakeups.listen(self.part.partition, self.listener))
        self.owed = set(self.places)

    def registration(self, left_s: float) -> WaitRegistration:
        return _registration(self.bell.name, left_s, self.bell.others_wait(self.listener), bool(self.worker))

    def looked(self, found: TakeResult | None, registration: WaitRegistration, since_s: float) -> None:
        """None: this partition was not looked at, since another had enough."""
        if found is not None:
            self._zero_s = since_s - found.now_ms / 1000
        if found is None or (found.taken.jobs and not registration.others_wait):
            self.owed = _without_used_ring(self.registered, self.rung, found)

    def looks_again(self) -> None:
        self.registered, self.rung = self.owed, self.listener.woken_place
        if self.listener.handed is not None:
            self.bell.give_back(self.listener.handed)

    def _received(self, job: Job) -> bool:
        """In the turn in which the ring is heard. One that comes while a look is under way is returned by the take, if
        that look found nothing."""
        if self._receive is None or not self.is_waiting or self._age_s(job) > FRESH_S:
            return False
        self.is_served = self._receive(job, lambda: self._store.start(_acceptance(job, self.part.partition)))
        if self.is_served:
            self.owed = self.owed - {(job.queue, "")}
        return self.is_served

    def handed(self) -> Job | None:
        """What came with the ring; one that was on its way too long may have gone back and is another's by now."""
        job = self.listener.handed
        if job is None or self._age_s(job) > FRESH_S:
            return None
        self.listener.handed = None
        self.owed = self.owed - {(job.queue, "")}
        return job

    def _age_s(self, job: Job) -> float:
        return time.monotonic() - self._zero_s - (job.started_at_ms or 0) / 1000

    def leave(self) -> None:
        if self.listener.handed is not None:
            self.bell.give_back(self.listener.handed)
        self.bell.leave(self.listener, self.owed)


async def take_waiting(
    store: Store, request: Take, choose: Callable[[], list[PartitionQueues]], receive: Receive | None = None
) -> Taken:
    """`receive` is given what is handed over in the turn in which that is heard, and the take ends with nothing."""
    await store.open()
    parts = choose()
    if request.wait_ms == 0:
        return (await take_once(store, look_flow(request, parts, [UNREGISTERED] * len(parts)))).taken
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    worker = request.worker if request.by_hand and request.wants == ANY_JOB and not request.accept_ms else b""
    posts = [_PartitionWait(store, part, filter_text(request.wants), worker, receive) for part in parts]
    while True:
        event = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            looks_again = False
            for post in posts:
                await post.listen(store, event, stack)
            try:
                found = await _look(store, request, posts, give_up_at_s)
                left_s = give_up_at_s - time.monotonic()
                if found.taken.jobs or left_s <= 0:
                    return found.taken
                await _ring(event, posts, min(_pause_s(found, left_s), BLOCK_S))
                if any(post.is_served for post in posts):
                    return Taken([], None)
                for post in posts:
                    if (job := post.handed()) is not None:
                        return Taken([job], None)
                    post.looks_again()
                looks_again = True
            finally:
                if not looks_again:
                    for post in posts:
                        post.leave()


def _acceptance(job: Job, partition: int) -> Flow[int | None]:
    answer = yield reports.accept_one(job.id, job.lease_token, partition)
    if isinstance(answer, Refusal):
        raise answer
    return answer  # type: ignore[no-any-return]


async def _ring(event: asyncio.Event, posts: Sequence[_PartitionWait], within_s: float) -> None:
    for post in posts:
        post.is_waiting = True
    try:
        await wait_for_event(event, within_s)
    finally:
        for post in posts:
            post.is_waiting = False


async def _look(store: Store, request: Take, posts: Sequence[_PartitionWait], give_up_at_s: float) -> CombinedTake:
    left_s = max(0.0, give_up_at_s - time.monotonic())
    registrations = [post.registration(left_s) for post in posts]
    parts = [post.part for post in posts]
    since_s = time.monotonic()
    found = await take_once(store, look_flow(request, parts, registrations, waits=True))
    for at, (post, registration) in enumerate(zip(posts, registrations, strict=True)):
        post.looked(found.partials[at] if at < len(found.partials) else None, registration, since_s)
    return found


def _without_used_ring(registered: set[Place], rung: Place | None, found: TakeResult | None) -> set[Place]:
    """Where the engine may still ring, or has rung for something else than what was taken."""
    if rung is None or found is None or rung[0] not in {job.queue for job in found.taken.jobs}:
        return registered
    return registered - {rung}


def take_waiting_sync(store: Store, request: Take, choose: Callable[[], list[PartitionQueues]]) -> Taken:
    store.open_sync()
    parts = choose()
    if request.wait_ms == 0:
        return store.run_sync(look_flow(request, parts, [UNREGISTERED] * len(parts))).taken
    if len(parts) > 1:
        return _on_a_loop_of_its_own(store, request, parts)
    return _wait_in_one_partition(store, request, parts[0])


def _wait_in_one_partition(store: Store, request: Take, part: PartitionQueues) -> Taken:
    give_up_at_s = time.monotonic() + request.wait_ms / 1000
    wanted = filter_text(request.wants)
    registered: set[Place] = set()
    rung: Place | None = None
    with store.wakeups.listen_sync(part.partition) as bell:
        while True:
            left_s = max(0.0, give_up_at_s - time.monotonic())
            registration = _registration(bell.name, left_s)
            found = store.run_sync(look_flow(request, [part], [registration], waits=True))
            left_s = give_up_at_s - time.monotonic()
            if not found.taken.jobs:
                registered = {(queue, wanted) for queue in part.queues}
            if found.taken.jobs or left_s <= 0:
                for queue, _ in _without_used_ring(registered, rung, found.partials[0]):
                    store.run_sync(_pass_ring_flow(bell.name, queue, wanted, part.partition))
                return found.taken
            message = bell.wait(_pause_s(found, left_s))
            rung = (message[1:].decode().partition("\1")[0], wanted) if message[:1] == b"Q" else None


def _pass_ring_flow(bell: str, queue: str, wanted: str, partition: int) -> Flow[bool]:
    return (yield maintenance.pass_wakeup(bell, queue, (wanted,), partition))  # type: ignore[no-any-return]


def _on_a_loop_of_its_own(store: Store, request: Take, parts: list[PartitionQueues]) -> Taken:
    """Several bells are several blocking reads: an event loop in a thread waits for all of them at once."""
    outcome: list[Taken | BaseException] = []

    async def wait() -> Taken:
        async with store.clone() as twin:
            return await take_waiting(twin, request, lambda: parts)

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
