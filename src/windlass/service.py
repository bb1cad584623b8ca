"""What may be asked? Every operation, one short method each: the table of contents of the product. Each method checks
what it is given and returns a question that is awaited, or answered by `.wait()` without an event loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from .core import validation as check
from .core.errors import BadInput, CrossPartition, Refusal
from .core.job import Durability, Ending, Job, NewJob, Timeline
from .core.queue import Configuration, Minute, QueueStats
from .core.requests import (
    Edit,
    Edited,
    Enqueued,
    Exchanged,
    Extended,
    Fail,
    Failed,
    Finish,
    Held,
    Listing,
    Page,
    Take,
    Taken,
    Update,
    Updated,
    Worker,
    WorkerInfo,
)
from .store import waiting
from .store.asked import Asked, AskedMany, AskedToWait
from .store.calls import enqueue, interventions, queues, reading, reports, take, upkeep, workers
from .store.calls.call import Call, Flow, ItemsCall, Now
from .store.pages import page
from .store.scatter import scatter
from .store.store import Store

T = TypeVar("T")
R = TypeVar("R", Held, Finish, Fail, Update, Edit)
S = TypeVar("S")
Builder: TypeAlias = Callable[[Sequence[S], int], ItemsCall[T | Refusal]]


class Service:
    def __init__(self, store: Store, *, payload_max: int = check.PAYLOAD_MAX) -> None:
        self.store = store
        self._payload_max = payload_max

    # Producers

    def enqueue(self, jobs: Sequence[NewJob], *, durability: Durability | None = None) -> AskedMany[Enqueued]:
        """Accepts jobs. Answers in order; an id or a unique key that is there already is no error."""
        check.items("jobs", jobs)
        for job in jobs:
            check.new_job(job, self._payload_max)
        level = durability or self.store.durability
        if level not in ("memory", "fsync", "replica"):
            raise BadInput(f"durability must be memory, fsync or replica, not {level!r}.")
        made = self.store.new_ids([job.queue for job in jobs])
        with_ids = [(job.id or made_id, job) for job, made_id in zip(jobs, made, strict=True)]
        return AskedMany(self.store, lambda: self._enqueue_flow(with_ids, level))

    def _enqueue_flow(self, jobs: Sequence[tuple[bytes, NewJob]], level: Durability) -> Flow[list[Enqueued | Refusal]]:
        now_ms = 0
        if any(job.delay_ms or job.expires_in_ms for _, job in jobs):
            now_ms = yield Now()
        return (
            yield from scatter(
                jobs,
                lambda one: self._home_of(*one),
                lambda part, home: enqueue.enqueue(part, now_ms, home, None if level == "memory" else level),
            )
        )

    def _home_of(self, job_id: bytes, job: NewJob) -> int:
        if self.store.partitions == 1:
            return 0
        home = self.store.partition_of_queue(job.queue)
        if self.store.partition_of_job(job_id) != home:
            raise CrossPartition(
                f"The id carries another partition than queue {job.queue!r}; let Windlass make the id."
            )
        return home

    # Workers

    def take(self, request: Take) -> Asked[Taken]:
        """Leases jobs; waits up to `wait_ms` for the first one."""
        check.take(request)
        chosen, home = self._queues_for(request)
        return AskedToWait(
            self.store,
            lambda: waiting.take_waiting(self.store, request, chosen, home),
            lambda: waiting.take_waiting_now(self.store, request, chosen, home),
        )

    def _queues_for(self, request: Take) -> tuple[list[str], int]:
        homes = {self.store.partition_of_queue(queue) for queue in request.queues}
        if len(homes) > 1:
            raise CrossPartition()
        order = list(request.queues)
        if request.weights:
            # A random key raised to 1/weight puts each queue first in proportion to its weight.
            weights = dict(zip(order, request.weights, strict=True))
            keys = {queue: random.random() ** (1 / weight) for queue, weight in weights.items()}  # noqa: S311
            order.sort(key=keys.__getitem__, reverse=True)
        return order, homes.pop()

    def exchange(self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take) -> Asked[Exchanged]:
        """Reports outcomes and takes the next jobs in one call. Does not wait."""
        check.items("finishes", finishes)
        check.items("failures", failures)
        for finished in finishes:
            check.finish(finished)
        for failed in failures:
            check.fail(failed)
        check.take(request)
        if len(finishes) + len(failures) > check.TAKE_MAX:
            raise BadInput(f"An exchange reports at most {check.TAKE_MAX} outcomes.")
        chosen, home = self._queues_for(request)
        reported = [one.id for one in finishes] + [one.id for one in failures]
        if any(self.store.partition_of_job(job_id) != home for job_id in reported):
            raise CrossPartition()
        call = take.exchange(request, chosen, home, finishes, failures)
        return AskedToWait(
            self.store,
            lambda: waiting.take_once(self.store, _ask(call)),
            lambda: self.store.run_now(_ask(call)),
        )

    def accept(self, requests: Sequence[Held], *, lease_ms: int = 0) -> AskedMany[int | None]:
        """Takes on dispatched jobs; answers their deadlines."""
        check.lease("lease_ms", lease_ms)
        return self._about_jobs(requests, check.held, lambda part, home: reports.accept(part, lease_ms, home))

    def extend(self, requests: Sequence[Held], *, lease_ms: int = 0) -> AskedMany[Extended]:
        """Heartbeat of many leases; says which are lost and which jobs are asked to stop."""
        check.lease("lease_ms", lease_ms)
        return self._about_jobs(requests, check.held, lambda part, home: reports.extend(part, lease_ms, home))

    def update(self, requests: Sequence[Update]) -> AskedMany[Updated]:
        """Progress, or a new payload, from the holder of the lease."""
        return self._about_jobs(requests, lambda one: check.update(one, self._payload_max), reports.update)

    def finish(self, requests: Sequence[Finish]) -> AskedMany[None]:
        """Ends jobs well."""
        return self._about_jobs(requests, check.finish, reports.finish)

    def fail(self, requests: Sequence[Fail]) -> AskedMany[Failed]:
        """Ends attempts badly: to be retried, for good, or as cancelled."""
        return self._about_jobs(requests, check.fail, reports.fail)

    def release(self, requests: Sequence[Held]) -> AskedMany[str]:
        """Gives jobs back unworked; no attempt is spent."""
        return self._about_jobs(requests, check.held, reports.release)

    # People and producers, about jobs that exist

    def cancel(self, ids: Sequence[bytes], *, reason: str = "cancelled") -> AskedMany[str]:
        """`cancelled` at once when it waits; `requested` when it runs."""
        check.text("reason", reason, check.REASON_MAX)
        return self._about_ids(ids, lambda part, home: interventions.cancel(part, reason, home))

    def retry(self, ids: Sequence[bytes]) -> AskedMany[str]:
        """Sends failed or cancelled jobs on their way again."""
        return self._about_ids(ids, interventions.retry)

    def requeue(self, ids: Sequence[bytes], *, gives_attempt_back: bool = False) -> AskedMany[str]:
        """Back into the queue from any state; a lease on the job ends."""
        check.claim("gives_attempt_back", gives_attempt_back)
        return self._about_ids(ids, lambda part, home: interventions.requeue(part, gives_attempt_back, home))

    def edit(self, requests: Sequence[Edit]) -> AskedMany[Edited]:
        """Changes waiting jobs: name, priority, time, payload."""
        return self._about_jobs(requests, lambda one: check.edit(one, self._payload_max), interventions.edit)

    def delete(self, ids: Sequence[bytes], *, even_leased: bool = False) -> AskedMany[str]:
        """Removes jobs and all that belongs to them."""
        check.claim("even_leased", even_leased)
        return self._about_ids(ids, lambda part, home: interventions.delete(part, even_leased, home))

    # Reading

    def job(self, ids: Sequence[bytes]) -> AskedMany[Timeline]:
        """Jobs with their attempts."""
        check.items("ids", ids)
        for job_id in ids:
            check.id_bytes("id", job_id)
        return AskedMany(self.store, lambda: self._job_flow(ids))

    def _job_flow(self, ids: Sequence[bytes]) -> Flow[list[Timeline | Refusal]]:
        replies = yield from scatter(ids, self.store.partition_of_job, reading.job)
        return [reading.timeline(job_id, reply) for job_id, reply in zip(ids, replies, strict=True)]

    def result(self, job_id: bytes, *, wait_ms: int = 0, consume: bool = False) -> Asked[Ending | None]:
        """How a job ended, None when it has not (within `wait_ms`). `consume` reads a kept result once."""
        check.id_bytes("id", job_id)
        check.whole("wait_ms", wait_ms, 0, check.DURATION_MAX)
        check.claim("consume", consume)
        return AskedToWait(
            self.store,
            lambda: waiting.result_waiting(self.store, job_id, consume, wait_ms),
            lambda: waiting.result_waiting_now(self.store, job_id, consume, wait_ms),
        )

    def jobs(self, listing: Listing) -> Asked[Page]:
        """One page of jobs by queue and state, or by tag."""
        check.listing(listing)
        home = self.store.partition_of_queue(listing.queue) if listing.queue and not listing.tag else 0
        return Asked(self.store, lambda: page(listing, home))

    # Queues

    def queues(self) -> Asked[list[str]]:
        """The names of all queues that hold something or are configured, in order."""
        return Asked(self.store, self._queues_flow)

    def _queues_flow(self) -> Flow[list[str]]:
        found: set[str] = set()
        for partition in range(self.store.partitions):
            cursor = "0"
            while True:
                cursor, names = yield queues.queues(cursor, 200, partition)
                found.update(names)
                if cursor == "0":
                    break
        return sorted(found)

    def stats(self, names: Sequence[str]) -> Asked[list[QueueStats]]:
        """Counts per state and the age of the oldest job, of some queues."""
        check.items("names", names)
        for name in names:
            check.text("queue", name, check.QUEUE_MAX)
        return Asked(self.store, lambda: self._stats_flow(names))

    def _stats_flow(self, names: Sequence[str]) -> Flow[list[QueueStats]]:
        found: list[QueueStats] = []
        for start in range(0, len(names), 100):
            part = names[start : start + 100]
            for home in sorted({self.store.partition_of_queue(name) for name in part}):
                mine = [name for name in part if self.store.partition_of_queue(name) == home]
                found += yield queues.stats(mine, home)
        place = {name: at for at, name in enumerate(names)}
        return sorted(found, key=lambda one: place[one.queue])

    def history(self, queue: str, *, hours: int = 1) -> Asked[list[Minute]]:
        """What happened in a queue, minute by minute."""
        check.text("queue", queue, check.QUEUE_MAX)
        check.whole("hours", hours, 1, check.HISTORY_HOURS_MAX)
        return Asked(self.store, lambda: _ask(queues.history(queue, hours, self.store.partition_of_queue(queue))))

    def configure(self, queue: str, changes: Mapping[str, int | bool | None]) -> Asked[Configuration]:
        """Changes properties of a queue at run time and answers all of them; None is the default again."""
        check.text("queue", queue, check.QUEUE_MAX)
        check.configuration(changes)
        return Asked(self.store, lambda: self._configure_flow(queue, changes))

    def _configure_flow(self, queue: str, changes: Mapping[str, int | bool | None]) -> Flow[Configuration]:
        home = self.store.partition_of_queue(queue)
        configuration = yield queues.configure(queue, changes, home)
        if changes.get("name_lanes"):
            while (yield queues.relane(queue, home)):
                pass
        return configuration  # type: ignore[no-any-return]

    def configuration(self, queue: str) -> Asked[Configuration]:
        """The properties of a queue."""
        return self.configure(queue, {})

    # Workers as such

    def register(self, worker: bytes, info: WorkerInfo, *, beat_ms: int = 30_000) -> Asked[int]:
        """A worker says what it is, and that it will beat at least every `beat_ms`."""
        check.worker_id(worker)
        check.worker_info(info)
        check.whole("beat_ms", beat_ms, 100, check.DURATION_MAX)
        bell = self.store.bell(0)
        name = bell.name if bell.hears_cancels else ""
        return Asked(self.store, lambda: _ask(workers.register(worker, beat_ms, name, info, 0)))

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Calls `handler` at once with the id of a job that is asked to stop, when a worker holds it that was
        registered from here afterwards. Needs a running event loop. Heartbeats tell the same, later."""
        self.store.bell(0).hear_cancels(handler)

    def beat(self, ids: Sequence[bytes]) -> AskedMany[None]:
        """Workers say that they are alive."""
        check.items("ids", ids)
        for worker in ids:
            check.worker_id(worker)
        return AskedMany(self.store, lambda: scatter(ids, lambda _: 0, workers.beat))

    def forget(self, worker: bytes) -> Asked[int]:
        """A worker leaves; what it holds goes back. Answers how many jobs that were."""
        check.worker_id(worker)
        return Asked(self.store, lambda: self._forget_flow(worker))

    def _forget_flow(self, worker: bytes) -> Flow[int]:
        given_back, is_gone = 0, False
        while not is_gone:
            answer = yield workers.forget(worker, 0)
            if isinstance(answer, Refusal):
                raise answer
            count, is_gone = answer
            given_back += count
        return given_back

    def workers(self, *, start: int = 0, most: int = 100) -> Asked[list[Worker]]:
        """Registered workers and what each runs."""
        check.whole("start", start, 0, check.UINT32_MAX)
        check.whole("most", most, 1, check.PAGE_MAX)
        return Asked(self.store, lambda: _ask(workers.workers(start, most, 0)))

    # What the loops do

    def promote(self) -> Asked[upkeep.Step]:
        """One step of the scheduler: jobs whose time has come."""
        return Asked(self.store, lambda: _ask(upkeep.promote(0)))

    def recover(self) -> Asked[upkeep.Step]:
        """One step of the recoverer: leases and workers that went silent, attempts over their time."""
        return Asked(self.store, self._recover_flow)

    def _recover_flow(self) -> Flow[upkeep.Step]:
        step, timed_out = yield upkeep.recover(0)
        if timed_out:
            decisions = [_time_out(job) for job in timed_out]
            yield from scatter(decisions, lambda _: 0, upkeep.time_out)
        return upkeep.Step(step.now_ms, step.done + len(timed_out), step.next_at_ms)

    def clean(self) -> Asked[upkeep.Step]:
        """One step of the janitor: retention and expiry."""
        return Asked(self.store, lambda: _ask(upkeep.clean(0)))

    def sweep(self, cursor: str = "0") -> Asked[upkeep.Swept]:
        """One step of the janitor's walk over queues: forgets empty ones, finishes divisions by name."""
        check.scan_cursor(cursor)
        return Asked(self.store, lambda: self._sweep_flow(cursor))

    def _sweep_flow(self, cursor: str) -> Flow[upkeep.Swept]:
        swept: upkeep.Swept = yield upkeep.sweep(cursor, 0)
        for queue in swept.to_relane:
            yield queues.relane(queue, 0)
        return swept

    def listen(self, *, for_s: float) -> Asked[bool]:
        """Waits until something becomes due earlier than anybody knew; False when the time is over."""
        check.number("for_s", for_s, 0, check.DURATION_MAX // 1000)
        return AskedToWait(self.store, lambda: waiting.upkeep_waiting(self.store, for_s), _needs_event_loop)

    # Shapes shared by the methods above

    def _about_jobs(self, requests: Sequence[R], validate: Callable[[R], None], build: Builder[R, T]) -> AskedMany[T]:
        check.items("requests", requests)
        for request in requests:
            validate(request)
        return AskedMany(self.store, lambda: scatter(requests, lambda one: self.store.partition_of_job(one.id), build))

    def _about_ids(self, ids: Sequence[bytes], build: Builder[bytes, T]) -> AskedMany[T]:
        check.items("ids", ids)
        for job_id in ids:
            check.id_bytes("id", job_id)
        return AskedMany(self.store, lambda: scatter(ids, self.store.partition_of_job, build))


def _ask(call: Call[T]) -> Flow[T]:
    return (yield call)  # type: ignore[no-any-return]


def _time_out(job: Job) -> upkeep.TimeOut:
    if not job.retry.wants_retry(job.attempt):
        return upkeep.TimeOut(job.id, job.lease_token, "final", 0)
    return upkeep.TimeOut(job.id, job.lease_token, "retry", job.retry.delay_ms(job.attempt, random.random()))  # noqa: S311


def _needs_event_loop() -> bool:
    raise BadInput("The loops listen in an event loop; await this.")
