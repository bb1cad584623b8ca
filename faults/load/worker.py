"""A worker for any front end: it takes jobs, keeps them a little, and reports in several ways, some of them too late.

It records every lease and every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from ..history import CallName, JobFacts
from .context import CallRefused, CallUnanswered, ClientContext

# The way in which a worker handles a job. Sleep: it reports after its lease has expired. Abandon: it never reports.
JobAction: TypeAlias = Literal["finish", "extend", "retry", "give_up", "release", "sleep", "abandon"]


class WorkerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of a worker."""

    queues: tuple[str, ...] = ("plain",)
    slots: int = 2
    most: int = 2  # jobs at once
    lease_ms: int = 2_000
    work_ms: int = 20  # at most
    wait_ms: int = 500
    actions: tuple[JobAction, ...] = ("finish",)


FINISH_ONLY: tuple[JobAction, ...] = ("finish",)
MIXED_ACTIONS: tuple[JobAction, ...] = (
    *("finish",) * 12,
    *("extend",) * 2,
    *("retry",) * 2,
    "give_up",
    "release",
    "sleep",
    "abandon",
)


class FrontEndWorker(Protocol):
    """The calls of a front end for workers. Each returns an outcome or the code of a refusal for each job.

    CallRefused and CallUnanswered concern the whole call."""

    actions: frozenset[JobAction]  # those that the front end supports

    @property
    def connection(self) -> str:
        """Name of the connection that leases are bound to; empty: they are not bound."""

    async def ready(self) -> None:
        """Prepare for a call, for example by connecting."""

    async def take(self, profile: WorkerProfile) -> Sequence[JobFacts]: ...
    async def finish(self, lease: JobFacts) -> JobFacts: ...
    async def fail(self, lease: JobFacts, *, final: bool, delay_ms: int) -> JobFacts: ...
    async def release(self, lease: JobFacts) -> JobFacts: ...
    async def extend(self, lease: JobFacts, lease_ms: int) -> JobFacts: ...


async def run_worker(context: ClientContext, workers: Sequence[FrontEndWorker], profile: WorkerProfile) -> None:
    """Run one slot per worker at the same time. Each slot handles one batch after the other."""
    await asyncio.gather(*(_run_slot(context, worker, profile) for worker in workers))


async def _run_slot(context: ClientContext, worker: FrontEndWorker, profile: WorkerProfile) -> None:
    actions = [action for action in profile.actions if action in worker.actions]
    while not context.is_over:
        async with context.ignoring_failures():
            for lease in await take_jobs(context, worker, profile):
                await _handle_job(context, worker, profile, lease, context.random.choice(actions))


async def take_jobs(context: ClientContext, worker: FrontEndWorker, profile: WorkerProfile) -> Sequence[JobFacts]:
    await worker.ready()
    pending = context.recorder.begin("take", connection=worker.connection)
    try:
        jobs = await worker.take(profile)
    except CallRefused as refused:
        pending.record_refusal(refused.code)
        raise
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        raise
    pending.record_ok(jobs)
    return jobs


async def _handle_job(
    context: ClientContext, worker: FrontEndWorker, profile: WorkerProfile, lease: JobFacts, action: JobAction
) -> None:
    await context.pause(context.random.random() * profile.work_ms / 1000)
    if action == "abandon":
        return
    if action == "sleep":
        await context.pause(profile.lease_ms * 1.5 / 1000)
    if action == "extend":
        await _extend_twice(context, worker, lease, profile.lease_ms)
    if action in ("retry", "give_up"):
        await _fail(context, worker, lease, is_final=action == "give_up" or lease.attempt == lease.tries > 0)
    elif action == "release":
        await record_report(context, worker, "release", lease, lambda: worker.release(lease))
    else:
        await record_report(context, worker, "finish", lease, lambda: worker.finish(lease))


async def _extend_twice(context: ClientContext, worker: FrontEndWorker, lease: JobFacts, lease_ms: int) -> None:
    """Work longer than the first lease."""
    for _ in range(2):
        await context.pause(lease_ms * 0.7 / 1000)
        await record_report(context, worker, "extend", lease, lambda: worker.extend(lease, lease_ms))


async def _fail(context: ClientContext, worker: FrontEndWorker, lease: JobFacts, *, is_final: bool) -> None:
    delay_ms = 0 if is_final else context.random.randrange(100)
    expected = msgspec.structs.replace(lease, outcome="failed" if is_final else "retried")
    await record_report(
        context, worker, "fail", expected, lambda: worker.fail(lease, final=is_final, delay_ms=delay_ms)
    )


async def record_report(
    context: ClientContext,
    worker: FrontEndWorker,
    call: CallName,
    lease: JobFacts,
    report: Callable[[], Awaitable[JobFacts]],
) -> JobFacts | None:
    """Make a report and record its answer. Return None if there is none."""
    await worker.ready()
    facts = JobFacts(key=lease.key, id=lease.id, token=lease.token, outcome=lease.outcome if call == "fail" else "")
    pending = context.recorder.begin(call, [facts], connection=worker.connection)
    try:
        answer = await report()
    except CallRefused as refused:
        pending.record_refusal(refused.code)
        return None
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        return None
    pending.record_ok([answer])
    return answer
