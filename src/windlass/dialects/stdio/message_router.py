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
from windlass.core.operations import Dispatch, Held
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
    def __init__(self, service: Service, identity: Identity, terms: ProcessorOptions, outlet: OutputPipe[Held]) -> None:
        self._service = service
        self._identity = identity
        self._terms = terms
        self._outlet = outlet
        self.watch = IdleWorkerWatch(service, terms, outlet, self._hand_out)

    async def perform(self, messages: Sequence[Message]) -> None:
        for one in split_into_batches(messages):
            try:
                await self._perform(one)
            except WindlassError as error:
                log.error("%d messages could not be dealt with: %s", len(one.jobs) + len(one.said), error)
            except Exception:
                # A mistake of ours must not end the talk of everybody else.
                log.exception("%d messages could not be dealt with.", len(one.jobs) + len(one.said))

    async def _perform(self, one: MessageBatch) -> None:
        await asyncio.gather(self._add(one.jobs), self._hear(one))
        queues = list(one.queues)
        if one.has_tick:
            await self._insist(self._service.recover())
            queues = self.watch.queues
        for first in range(0, len(queues), QUEUES_AT_ONCE):
            await self._assign(queues[first : first + QUEUES_AT_ONCE])
        for asked in one.shows:
            await self._outlet.room()
            payload = await answer_list_request(self._service, asked, self._terms)
            await self._write(f"job_queue/{asked.name}_response", payload)

    async def _insist(self, question: Operation[T]) -> T:
        while True:
            try:
                return await question
            except _TRANSIENT_ERRORS as error:
                log.error("The engine cannot be asked (%s); trying again.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    async def _add(self, new: Sequence[NewJob]) -> None:
        if not new:
            return
        answers = await self._insist(self._service.enqueue(new))
        for job, answer in zip(new, answers, strict=True):
            if isinstance(answer, Refusal):
                log.error("Job %s was not added to %s: %s", job.unique, job.queue, answer)
            elif answer.status == "existing":
                log.warning("Job %s is in %s already; it is left as it was.", job.unique, job.queue)
            else:
                log.debug("Job %s was added to %s as %s.", job.unique, job.queue, format_id(answer.id))

    async def _hear(self, round_: MessageBatch) -> None:
        if not round_.said:
            return
        answers = await self._insist(self._service.report_worker(round_.said, silent_ms=self._terms.expiry_ms))
        for one, answer in zip(round_.said, answers, strict=True):
            if one.idle_ms and one.queue in round_.queues:  # the watch dispatches: not after an old message alone
                self.watch.note(one.queue, one.idle_ms)
            if isinstance(answer, Refusal):
                log.warning(
                    "Worker %s said %s of job %s in %s: %s", one.info.name, one.says, one.unique, one.queue, answer
                )
            else:
                log.debug("Worker %s in %s: %s.", one.info.name, one.queue, f"{one.says} {one.unique}".rstrip())

    async def _assign(self, queues: Sequence[str]) -> None:
        """While there are jobs and idle workers; only as fast as assignments can be written."""
        terms = self._terms
        while True:
            await self._outlet.room()
            if self._outlet.is_broken:
                return
            question = self._service.assign(
                queues,
                most=ASSIGN_BATCH,
                accept_ms=terms.accept_ms,
                spends_attempt=terms.attempts > 0,
                ring_ms=terms.expiry_ms,  # for those who stay idle the watch hears of jobs that come later
            )
            found = await self._insist(question)
            self._hand_out(found)
            if len(found.jobs) < ASSIGN_BATCH:
                return

    def _hand_out(self, found: Dispatch) -> None:
        for job in found.jobs:
            worker = _worker_name(job.worker or b"", found)
            topic = f"job_queue/workers/{worker}/job_assignment"
            line = encode_message(self._identity, topic, jobs.encode_assignment(job), job.started_at_ms or 0)
            self._outlet.put(line, Held(job.id, job.lease_token))
            log.debug("Job %s of %s was dispatched to worker %s.", job.unique or job.key, job.queue, worker)

    async def _write(self, topic: str, payload: bytes) -> None:
        self._outlet.put(encode_message(self._identity, topic, payload, await self._service.now()))

    async def give_back(self) -> None:
        """What was dispatched and could not be written: nobody can have got it."""
        held = self._outlet.unwritten()
        if held:
            log.warning("%d jobs go back: their assignments could not be written.", len(held))
            await self._service.release(held)


def _worker_name(worker: bytes, found: Dispatch) -> str:
    return found.workers[worker].name or format_id(worker)
