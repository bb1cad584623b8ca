"""Workers that speak by messages: what they say is heard, and those that are idle are given jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from windlass.core.errors import BadInput, Refusal
from windlass.core.operations import Dispatch, Finish, LeaseRef, WorkerReport, WorkerReportOutcome
from windlass.core.validation.bounds import DURATION_MAX, TAKE_MAX
from windlass.core.validation.values import check_boolean, check_integer, check_list
from windlass.core.validation.workers import check_queue_list, check_worker_report
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import assign as calls
from windlass.store.commands.command import Flow, split_batch
from windlass.store.commands.take import UNREGISTERED, WaitRegistration
from windlass.store.operation import BatchOperation, Operation, WaitingOperation
from windlass.store.waiting import assign as assign_waiting
from windlass.store.waiting.take import parts_of

from .facet import Facet
from .repeat import finish_flow


class AssignmentOperations(Facet):
    def report_worker(self, requests: Sequence[WorkerReport], *, silent_ms: int) -> BatchOperation[WorkerReportOutcome]:
        """Messages of workers, in their order. A worker that is silent for `silent_ms` is gone, and what it works on
        goes back; so does a job that its worker has not spoken of for so long, though it has said that it is idle."""
        check_list("requests", requests)
        for request in requests:
            check_worker_report(request)
        check_integer("silent_ms", silent_ms, 1, DURATION_MAX)
        return BatchOperation(self.store, lambda: self._report_worker_flow(requests, silent_ms))

    def _report_worker_flow(self, requests: Sequence[WorkerReport], silent_ms: int) -> Flow[list[WorkerReportOutcome | Refusal]]:
        answers: list[Any] = yield from split_by_partition(
            requests,
            lambda one: self.store.partition_of_queue(one.queue),
            lambda part, partition: calls.report_worker(part, silent_ms, partition),
        )
        yield from self._show_workers(requests, silent_ms)
        return (yield from self._finish_repeating(requests, answers))

    def _show_workers(self, requests: Sequence[WorkerReport], silent_ms: int) -> Flow[None]:
        """Lists of workers begin in the first partition: those of others must be known there too."""
        elsewhere = {one.worker: one for one in requests if self.store.partition_of_queue(one.queue) != 0}
        if elsewhere:
            yield split_batch(calls.report_presence(list(elsewhere.values()), silent_ms, 0))

    def _finish_repeating(
        self, requests: Sequence[WorkerReport], answers: Sequence[WorkerReportOutcome | LeaseRef | Refusal]
    ) -> Flow[list[WorkerReportOutcome | Refusal]]:
        repeating = {place: one for place, one in enumerate(answers) if isinstance(one, LeaseRef)}
        if not repeating:
            return cast(list[WorkerReportOutcome | Refusal], answers)
        finishes = [Finish(held.id, held.token, requests[place].result) for place, held in repeating.items()]
        done = yield from finish_flow(finishes, self.store.partition_of_job)
        finish_answers = dict(zip(repeating, done, strict=True))
        return [(finish_answers[place] or "ok") if place in finish_answers else one for place, one in enumerate(answers)]  # type: ignore[misc]

    def assign(
        self,
        queues: Sequence[str],
        *,
        most: int = 500,
        accept_ms: int,
        spends_attempt: bool = False,
        wait_ms: int = 0,
        until: asyncio.Event | None = None,
        ring_ms: int = 0,
    ) -> Operation[Dispatch]:
        """Leases jobs of these queues to workers that are idle there, one to each, to be accepted within `accept_ms`;
        `spends_attempt`: also one that is not accepted spends an attempt. Waits up to `wait_ms` for the first, in one
        partition; set `until` to end the wait. To cancel it instead gives the jobs of a look under way back, but makes
        no worker idle again. `ring_ms`: where workers stay idle, a job that comes within this time rings whoever waits
        so in this process."""
        check_queue_list(queues)
        check_integer("most", most, 1, TAKE_MAX)
        check_integer("accept_ms", accept_ms, 1, DURATION_MAX)
        check_boolean("spends_attempt", spends_attempt)
        check_integer("wait_ms", wait_ms, 0, DURATION_MAX)
        check_integer("ring_ms", ring_ms, 0, DURATION_MAX)
        terms = assign_waiting.Terms(most, accept_ms, spends_attempt)
        return WaitingOperation(
            self.store,
            lambda: self._assign(tuple(queues), terms, wait_ms, until or asyncio.Event(), ring_ms),
            lambda: self.store.run_sync(self._assign_flow(queues, terms)),
        )

    async def _assign(
        self, queues: tuple[str, ...], terms: assign_waiting.Terms, wait_ms: int, until: asyncio.Event, ring_ms: int
    ) -> Dispatch:
        await self.store.open()
        if not wait_ms:
            return await self.store.run(self._assign_flow(queues, terms, ring_ms))
        if len(parts_of(self.store, queues)) > 1:
            raise BadInput("One waits in one partition: ask for queues of one.")
        return await assign_waiting.assign_waiting(
            self.store, queues, terms, wait_ms, self.store.partition_of_queue(queues[0]), until
        )

    def _assign_flow(self, queues: Sequence[str], terms: assign_waiting.Terms, ring_ms: int = 0) -> Flow[Dispatch]:
        found = Dispatch([], {}, None)
        for part in parts_of(self.store, queues):
            left = terms.most - len(found.jobs)
            if left == 0:
                break
            partition = part.partition
            rung = WaitRegistration(self.store.wakeups.of(partition).name, ring_ms) if ring_ms else UNREGISTERED
            more = yield from assign_waiting.assign_flow(tuple(part.queues), terms._replace(most=left), partition, rung)
            instants = [at for at in (found.next_due_at_ms, more.taken.next_due_at_ms) if at is not None]
            found = Dispatch(found.jobs + more.taken.jobs, found.workers | more.workers, min(instants, default=None))
        return found
