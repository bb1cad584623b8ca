"""Operations for workers that communicate by messages: process their reports, and assign jobs to idle workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from windlass.core.errors import BadInput, Refusal
from windlass.core.job import Job
from windlass.core.operations import (
    AfterFailure,
    Dispatch,
    Fail,
    FailOutcome,
    Finish,
    LeaseRef,
    WorkerReport,
    WorkerReportOutcome,
)
from windlass.core.retry import ENDLESS
from windlass.core.validation.bounds import DURATION_MAX, TAKE_MAX
from windlass.core.validation.values import check_boolean, check_integer, check_list
from windlass.core.validation.workers import check_queue_list, check_worker_report
from windlass.pauses import random_fraction
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import assign as calls
from windlass.store.commands import jobs, reports
from windlass.store.commands.command import BatchCommand, Flow, split_batch
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import assign as assign_waiting
from windlass.store.waiting.take import group_by_partition

from .facet import Facet
from .repeat import finish_flow


class AssignmentOperations(Facet):
    def report_worker(self, requests: Sequence[WorkerReport], *, silent_ms: int) -> BatchOperation[WorkerReportOutcome]:
        """Process messages of workers in their order. A worker that is silent for `silent_ms` counts as lost, and its
        jobs go back to their queue. So does a job that its worker has not mentioned for that time although the worker
        has reported to be idle."""
        check_list("requests", requests)
        for request in requests:
            check_worker_report(request)
        check_integer("silent_ms", silent_ms, 1, DURATION_MAX)
        return BatchOperation(self.store, lambda: self._report_worker_flow(requests, silent_ms))

    def _report_worker_flow(
        self, requests: Sequence[WorkerReport], silent_ms: int
    ) -> Flow[list[WorkerReportOutcome | Refusal]]:
        answers: list[Any] = yield from split_by_partition(
            requests,
            lambda request: self.store.partition_of_queue(request.queue),
            lambda part, partition: calls.report_worker(part, silent_ms, partition),
        )
        yield from self._report_presence(requests, silent_ms)
        return (yield from self._end_runs(requests, answers))

    def _report_presence(self, requests: Sequence[WorkerReport], silent_ms: int) -> Flow[None]:
        """Report workers of other partitions to the first partition, which holds the list of workers."""
        elsewhere = {
            request.worker: request for request in requests if self.store.partition_of_queue(request.queue) != 0
        }
        if elsewhere:
            yield split_batch(calls.report_presence(list(elsewhere.values()), silent_ms, 0))

    def _end_runs(
        self, requests: Sequence[WorkerReport], answers: Sequence[WorkerReportOutcome | LeaseRef | Refusal]
    ) -> Flow[list[WorkerReportOutcome | Refusal]]:
        """End the runs that need another command: of failed jobs, and of finished jobs that repeat."""
        held = {place: answer for place, answer in enumerate(answers) if isinstance(answer, LeaseRef)}
        if not held:
            return cast(list[WorkerReportOutcome | Refusal], answers)
        failed = {place: lease for place, lease in held.items() if requests[place].kind == "failed"}
        finished = {place: lease for place, lease in held.items() if place not in failed}
        finishes = [Finish(lease.id, lease.token, requests[place].result) for place, lease in finished.items()]
        ends: dict[int, Any] = dict(
            zip(finished, (yield from finish_flow(finishes, self.store.partition_of_job)), strict=True)
        )
        ends |= yield from self._fail_flow({place: (requests[place], lease) for place, lease in failed.items()})
        return [(ends[place] or "ok") if place in ends else answer for place, answer in enumerate(answers)]  # type: ignore[misc]

    def _fail_flow(self, failed: dict[int, tuple[WorkerReport, LeaseRef]]) -> Flow[dict[int, FailOutcome | Refusal]]:
        """Fail attempts by the retry policies of their jobs, which are read first."""
        ids = [lease.id for _, lease in failed.values()]
        replies: list[Any] = yield from split_by_partition(ids, self.store.partition_of_job, jobs.job)
        failures: list[Fail] = []
        ends: dict[int, FailOutcome | Refusal] = {}
        for (place, (report, lease)), reply in zip(failed.items(), replies, strict=True):
            found = jobs.timeline(lease.id, reply)
            if isinstance(found, Refusal):
                ends[place] = found
            else:
                failures.append(_failure(report, found.job, lease))
        build: Callable[[Sequence[Fail], int], BatchCommand[Any]] = reports.fail
        answers: list[Any] = yield from split_by_partition(
            failures, lambda failure: self.store.partition_of_job(failure.id), build
        )
        return ends | dict(zip([place for place in failed if place not in ends], answers, strict=True))

    def assign(
        self,
        queues: Sequence[str],
        *,
        most: int = 500,
        accept_ms: int,
        spends_attempt: bool = False,
        wait_ms: int = 0,
        until: asyncio.Event | None = None,
        wakeup_ms: int = 0,
    ) -> Operation[Dispatch]:
        """Lease jobs of these queues to idle workers, one job each. A worker must accept its job within `accept_ms`.
        With `spends_attempt`, a job that is not accepted spends an attempt too.

        The call waits up to `wait_ms` for the first job, in one partition only. Set `until` to end the wait. Cancelling
        the call instead gives back the jobs of a poll in flight but does not mark their workers as idle again.
        `wakeup_ms`: if workers stay idle, a job that arrives or becomes due within this time wakes the waiting calls
        of this process."""
        check_queue_list(queues)
        check_integer("most", most, 1, TAKE_MAX)
        check_integer("accept_ms", accept_ms, 1, DURATION_MAX)
        check_boolean("spends_attempt", spends_attempt)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        check_integer("wakeup_ms", wakeup_ms, 0, DURATION_MAX)
        options = assign_waiting.AssignOptions(most, accept_ms, spends_attempt)
        return WaitingOperation(
            self.store,
            lambda: self._assign(tuple(queues), options, wait_ms, until or asyncio.Event(), wakeup_ms),
            lambda: self.store.run_sync(self._assign_flow(queues, options)),
        )

    async def _assign(
        self,
        queues: tuple[str, ...],
        options: assign_waiting.AssignOptions,
        wait_ms: int,
        until: asyncio.Event,
        wakeup_ms: int,
    ) -> Dispatch:
        await self.store.open()
        if not wait_ms:
            return await self.store.run(self._assign_flow(queues, options, wakeup_ms))
        if len(group_by_partition(self.store, queues)) > 1:
            raise BadInput("A call can wait in one partition only: name queues of one partition.")
        return await assign_waiting.assign_waiting(
            self.store, queues, options, wait_ms, self.store.partition_of_queue(queues[0]), until
        )

    def _assign_flow(
        self, queues: Sequence[str], options: assign_waiting.AssignOptions, wakeup_ms: int = 0
    ) -> Flow[Dispatch]:
        found = Dispatch([], {}, None)
        for part in group_by_partition(self.store, queues):
            left = options.most - len(found.jobs)
            if left == 0:
                break
            more = yield from assign_waiting.assign_for_others_flow(
                self.store, part, options._replace(most=left), wakeup_ms
            )
            instants = [at for at in (found.next_due_at_ms, more.taken.next_due_at_ms) if at is not None]
            found = Dispatch(found.jobs + more.taken.jobs, found.workers | more.workers, min(instants, default=None))
        return found


def _failure(report: WorkerReport, job: Job, lease: LeaseRef) -> Fail:
    is_retried = _is_retried(report.then, job)
    return Fail(
        id=lease.id,
        token=lease.token,
        then="cancelled" if job.is_cancel_requested else "retry" if is_retried else "final",
        delay_ms=job.retry.delay_ms(job.attempt, random_fraction()) if is_retried else 0,
        error=report.error,
    )


def _is_retried(then: AfterFailure, job: Job) -> bool:
    """Whether the job runs again. A job without a policy is retried only on request: otherwise it could fail without
    end."""
    wants_retry = then == "retry" or (then == "auto" and job.retry != ENDLESS)
    return wants_retry and job.retry.wants_retry(job.attempt)
