"""Handles messages batch by batch, and writes the assignments and answers that follow.

No message is dropped while the engine is unavailable: the call is repeated until it succeeds, and no more input is
read until then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, PartitionStopped, Refusal, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.operations import Dispatch, LeaseRef, WorkerReport, WorkerReportOutcome
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from . import jobs
from .deletion import delete_job
from .envelope import Identity, encode_message
from .idle_watch import QUEUES_AT_ONCE, IdleWorkerWatch
from .list_requests import answer_list_request
from .message_batches import MessageBatch, split_into_batches
from .messages import DeleteJobMessage, Message, ProcessorOptions
from .pipes import OutputPipe

log = logging.getLogger("windlass.processor")

T = TypeVar("T")
ASSIGN_BATCH = 500
_TRANSIENT_ERRORS = (EngineUnavailable, EngineNotPermitted, PartitionStopped)


class MessageRouter:
    def __init__(
        self, service: Service, identity: Identity, options: ProcessorOptions, output: OutputPipe[LeaseRef]
    ) -> None:
        self._service = service
        self._identity = identity
        self._options = options
        self._output = output
        self.watch = IdleWorkerWatch(service, options, output, self._write_assignments)

    async def handle(self, messages: Sequence[Message]) -> None:
        for batch in split_into_batches(messages):
            try:
                await self._run_batch(batch)
            except WindlassError as error:
                log.error("Dropped %d messages: %s", batch.size, error)
            except Exception:
                # An internal error must not end the session.
                log.exception("Dropped %d messages because of an internal error.", batch.size)

    async def _run_batch(self, batch: MessageBatch) -> None:
        # The watch may give a job to a worker as soon as the worker is known to be idle.
        await asyncio.gather(*map(self._delete, batch.deletions))
        await asyncio.gather(self._add(batch.jobs), self._report_workers(batch))
        queues = list(batch.queues)
        if batch.has_tick:
            await self._retry_while_unreachable(self._service.recover)
            queues = self.watch.queues
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            await self._assign(queues[first : first + QUEUES_AT_ONCE])
        for request in batch.list_requests:
            await self._output.wait_for_room()
            payload = await answer_list_request(self._service, request, self._options)
            await self._write_message(f"job_queue/{request.name}_response", payload)

    async def _retry_while_unreachable(self, start: Callable[[], Awaitable[T]]) -> T:
        failure = "The engine is unavailable, so no input is read"
        return await RetryLoop(log, failure, _TRANSIENT_ERRORS, level=logging.ERROR).until_done(start)

    async def _add(self, new: Sequence[NewJob]) -> None:
        if not new:
            return
        answers = await self._retry_while_unreachable(lambda: self._service.enqueue(new))
        for job, answer in zip(new, answers, strict=True):
            if isinstance(answer, Refusal):
                log.error("Job %s was not added to %s: %s", job.unique, job.queue, answer)
            elif answer.status == "existing":
                log.warning("Job %s is already in %s; it was not changed.", job.unique, job.queue)
            else:
                log.debug("Job %s was added to %s as %s.", job.unique, job.queue, format_id(answer.id))

    async def _report_workers(self, batch: MessageBatch) -> None:
        if not batch.reports:
            return
        answers = await self._retry_while_unreachable(
            lambda: self._service.report_worker(batch.reports, silent_ms=self._options.expiry_ms)
        )
        for report, answer in zip(batch.reports, answers, strict=True):
            if report.idle_ms and report.queue in batch.queues:  # an old message alone must not trigger a dispatch
                self.watch.note_idle(report.queue, report.idle_ms)
            _log_report(report, answer)
            if answer == "cancel_requested":
                await self._ask_to_stop(report.info.name, report.queue, report.unique)

    async def _delete(self, message: DeleteJobMessage) -> None:
        try:
            deletion = await self._retry_while_unreachable(lambda: delete_job(self._service, message))
        except Refusal as error:
            log.warning("Job %s in %s was not deleted: %s", message.uuid, message.queue, error)
            return
        log.debug("Deletion of job %s in %s: %s.", message.uuid, message.queue, deletion.status)
        if deletion.worker:
            await self._ask_to_stop(deletion.worker, message.queue, message.uuid)

    async def _ask_to_stop(self, worker: str, queue: str, uuid: str) -> None:
        payload = msgspec.json.encode({"uuid": uuid, "queue_name": queue})
        await self._write_message(f"job_queue/workers/{worker}/job_cancelled", payload)

    async def _assign(self, queues: Sequence[str]) -> None:
        """Give jobs to idle workers until either run out, and not faster than assignments can be written."""
        options = self._options
        while True:
            await self._output.wait_for_room()
            if self._output.is_broken:
                return
            dispatch = await self._retry_while_unreachable(
                lambda: self._service.assign(
                    queues,
                    most=ASSIGN_BATCH,
                    accept_ms=options.accept_ms,
                    spends_attempt=options.attempts > 0,
                    wakeup_ms=options.expiry_ms,  # wakes the watch when a job comes later for a worker that stays idle
                )
            )
            self._write_assignments(dispatch)
            if len(dispatch.jobs) < ASSIGN_BATCH:
                return

    def _write_assignments(self, dispatch: Dispatch) -> None:
        for job in dispatch.jobs:
            worker = _worker_name(job.worker or b"", dispatch)
            topic = f"job_queue/workers/{worker}/job_assignment"
            line = encode_message(self._identity, topic, jobs.encode_assignment(job), job.started_at_ms or 0)
            self._output.put(line, LeaseRef(job.id, job.lease_token))
            log.debug("Job %s of %s was dispatched to worker %s.", jobs.job_uuid(job), job.queue, worker)

    async def _write_message(self, topic: str, payload: bytes) -> None:
        self._output.put(encode_message(self._identity, topic, payload, await self._service.now()))

    async def release_unwritten(self) -> None:
        """Release the jobs whose assignments were not written."""
        leases = self._output.take_unwritten()
        if leases:
            log.warning("Released %d jobs: their assignments could not be written.", len(leases))
            await self._service.release(leases)


def _log_report(report: WorkerReport, answer: WorkerReportOutcome | Refusal) -> None:
    if isinstance(answer, Refusal):
        log.warning(
            "The message of worker %s (%s, job %s in %s) had no effect: %s",
            report.info.name,
            report.kind,
            report.unique,
            report.queue,
            answer,
        )
    else:
        said = f"{report.kind} {report.unique}".rstrip() + (f", {answer}" if report.kind == "failed" else "")
        log.debug("Worker %s in %s: %s.", report.info.name, report.queue, said)


def _worker_name(worker: bytes, dispatch: Dispatch) -> str:
    return dispatch.workers[worker].name or format_id(worker)
