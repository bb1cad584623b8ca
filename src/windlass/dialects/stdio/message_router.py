"""Does what messages ask for: round by round on the service, and writes what follows. Nothing that was read is dropped
because the engine is away: it is asked again until it answers, and meanwhile nothing more is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeVar

from windlass.core.errors import EngineNotPermitted, EngineUnavailable, PartitionStopped, Refusal, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.operations import Dispatch, LeaseRef
from windlass.service import Service
from windlass.store.operation import Operation

from . import jobs
from .envelope import Identity, encode_message
from .idle_watch import QUEUES_AT_ONCE, TROUBLE_PAUSE_S, IdleWorkerWatch
from .list_requests import answer_list_request
from .message_batches import MessageBatch, split_into_batches
from .messages import Message, ProcessorOptions
from .pipes import OutputPipe

log = logging.getLogger("windlass.processor")

T = TypeVar("T")
ASSIGN_BATCH = 500
_TRANSIENT_ERRORS = (EngineUnavailable, EngineNotPermitted, PartitionStopped)


class MessageRouter:
    def __init__(
        self, service: Service, identity: Identity, options: ProcessorOptions, outlet: OutputPipe[LeaseRef]
    ) -> None:
        self._service = service
        self._identity = identity
        self._options = options
        self._output = outlet
        self.watch = IdleWorkerWatch(service, options, outlet, self._write_assignments)

    async def handle(self, messages: Sequence[Message]) -> None:
        for one in split_into_batches(messages):
            try:
                await self._run_batch(one)
            except WindlassError as error:
                log.error("%d messages could not be dealt with: %s", len(one.jobs) + len(one.report), error)
            except Exception:
                # A mistake of ours must not end the talk of everybody else.
                log.exception("%d messages could not be dealt with.", len(one.jobs) + len(one.report))

    async def _run_batch(self, one: MessageBatch) -> None:
        await asyncio.gather(self._add(one.jobs), self._report_workers(one))
        queues = list(one.queues)
        if one.has_tick:
            await self._retry_while_unreachable(self._service.recover())
            queues = self.watch.queues
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            await self._assign(queues[first : first + QUEUES_AT_ONCE])
        for asked in one.list_requests:
            await self._output.wait_for_room()
            payload = await answer_list_request(self._service, asked, self._options)
            await self._write_message(f"job_queue/{asked.name}_response", payload)

    async def _retry_while_unreachable(self, question: Operation[T]) -> T:
        while True:
            try:
                return await question
            except _TRANSIENT_ERRORS as error:
                log.error("The engine cannot be asked (%s); trying again.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    async def _add(self, new: Sequence[NewJob]) -> None:
        if not new:
            return
        answers = await self._retry_while_unreachable(self._service.enqueue(new))
        for job, answer in zip(new, answers, strict=True):
            if isinstance(answer, Refusal):
                log.error("Job %s was not added to %s: %s", job.unique, job.queue, answer)
            elif answer.status == "existing":
                log.warning("Job %s is in %s already; it is left as it was.", job.unique, job.queue)
            else:
                log.debug("Job %s was added to %s as %s.", job.unique, job.queue, format_id(answer.id))

    async def _report_workers(self, round_: MessageBatch) -> None:
        if not round_.report:
            return
        answers = await self._retry_while_unreachable(
            self._service.report_worker(round_.report, silent_ms=self._options.expiry_ms)
        )
        for one, answer in zip(round_.report, answers, strict=True):
            if one.idle_ms and one.queue in round_.queues:  # the watch dispatches: not after an old message alone
                self.watch.note_idle(one.queue, one.idle_ms)
            if isinstance(answer, Refusal):
                log.warning(
                    "Worker %s said %s of job %s in %s: %s", one.info.name, one.kind, one.unique, one.queue, answer
                )
            else:
                log.debug("Worker %s in %s: %s.", one.info.name, one.queue, f"{one.kind} {one.unique}".rstrip())

    async def _assign(self, queues: Sequence[str]) -> None:
        """While there are jobs and idle workers; only as fast as assignments can be written."""
        options = self._options
        while True:
            await self._output.wait_for_room()
            if self._output.is_broken:
                return
            question = self._service.assign(
                queues,
                most=ASSIGN_BATCH,
                accept_ms=options.accept_ms,
                spends_attempt=options.attempts > 0,
                ring_ms=options.expiry_ms,  # for those who stay idle the watch hears of jobs that come later
            )
            found = await self._retry_while_unreachable(question)
            self._write_assignments(found)
            if len(found.jobs) < ASSIGN_BATCH:
                return

    def _write_assignments(self, found: Dispatch) -> None:
        for job in found.jobs:
            worker = _worker_name(job.worker or b"", found)
            topic = f"job_queue/workers/{worker}/job_assignment"
            line = encode_message(self._identity, topic, jobs.encode_assignment(job), job.started_at_ms or 0)
            self._output.put(line, LeaseRef(job.id, job.lease_token))
            log.debug("Job %s of %s was dispatched to worker %s.", job.unique or job.key, job.queue, worker)

    async def _write_message(self, topic: str, payload: bytes) -> None:
        self._output.put(encode_message(self._identity, topic, payload, await self._service.now()))

    async def release_unwritten(self) -> None:
        """What was dispatched and could not be written: nobody can have got it."""
        held = self._output.take_unwritten()
        if held:
            log.warning("%d jobs go back: their assignments could not be written.", len(held))
            await self._service.release(held)


def _worker_name(worker: bytes, found: Dispatch) -> str:
    return found.workers[worker].name or format_id(worker)
