"""Messages → rounds of calls. Each round is: jobs come in and workers are heard, side by side; then idle workers are
given jobs; then what was asked for is shown. The outcome is as if every message had been dealt with alone, in order."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.job import NewJob
from windlass.core.operations import WorkerReport

from .messages import AddJobMessage, ListMessage, Message, TickMessage, WorkerMessage

MESSAGES_MAX = 1000  # of one round: one call of the engine has no more
BYTES_MAX = 2 * 1024 * 1024


class MessageBatch:
    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.report: list[WorkerReport] = []
        self.queues: dict[str, None] = {}  # where somebody may be idle and something may wait, in order
        self.list_requests: list[ListMessage] = []
        self.has_tick = False
        self._mentioned: set[tuple[str, str]] = set()  # of jobs that came in or were spoken of
        self._added: set[tuple[str, str]] = set()
        self._idle: set[bytes] = set()
        self._asked_for_job: set[tuple[str, bytes]] = set()
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return not (self.jobs or self.report or self.list_requests or self.has_tick)

    def has_room_for(self, message: Message) -> bool:
        """False: what comes before must have had its effect first."""
        if self.list_requests or self.has_tick:
            return False
        if isinstance(message, AddJobMessage):
            job = message.job
            return self._fits(len(self.jobs), len(job.payload.data)) and (job.queue, job.unique) not in self._mentioned
        if isinstance(message, WorkerMessage):
            said = message.report
            size = len(said.result.data) if said.result else 0
            # Who says it late must not be given what an earlier message of the round dispatches.
            is_old = said.idle_ms > 0 and not message.is_fresh
            is_later = self._must_wait(said) or (is_old and said.queue in self.queues)
            return self._fits(len(self.report), size) and not is_later
        return True

    def _must_wait(self, said: WorkerReport) -> bool:
        """A worker that was idle just now speaks of a job that it may get only in this round, or asks for another."""
        if said.kind == "idle":
            return (said.queue, said.worker) in self._asked_for_job
        return (said.queue, said.unique) in self._added or said.worker in self._idle

    def _fits(self, count: int, size: int) -> bool:
        return count < MESSAGES_MAX and self._bytes + size <= BYTES_MAX

    def add(self, message: Message) -> None:
        if isinstance(message, AddJobMessage):
            job = message.job
            self.jobs.append(job)
            self._bytes += len(job.payload.data)
            self._added.add((job.queue, job.unique))
            self._mentioned.add((job.queue, job.unique))
            self.queues[job.queue] = None
        elif isinstance(message, WorkerMessage):
            self._add_report(message)
        elif isinstance(message, ListMessage):
            self.list_requests.append(message)
        elif isinstance(message, TickMessage):
            self.has_tick = True

    def _add_report(self, message: WorkerMessage) -> None:
        said = message.report
        self.report.append(said)
        self._bytes += len(said.result.data) if said.result else 0
        if said.unique:
            self._mentioned.add((said.queue, said.unique))
        if message.makes_idle:
            self._idle.add(said.worker)
            if said.kind == "idle":
                self._asked_for_job.add((said.queue, said.worker))
            if message.is_fresh:
                self.queues[said.queue] = None


def split_into_batches(messages: Iterable[Message]) -> list[MessageBatch]:
    made = [MessageBatch()]
    for message in messages:
        if not made[-1].has_room_for(message):
            made.append(MessageBatch())
        made[-1].add(message)
    return [one for one in made if not one.is_empty]
