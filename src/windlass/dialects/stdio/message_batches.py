"""Batches of messages.

For each batch, jobs are deleted; then jobs are enqueued and worker reports are processed concurrently; then idle
workers are given jobs; then list requests are answered. The outcome is the same as if the messages were handled one by
one, in order."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.job import NewJob
from windlass.core.operations import WorkerReport

from .messages import AddJobMessage, DeleteJobMessage, ListMessage, Message, TickMessage, WorkerMessage

MESSAGES_MAX = 1000  # of one batch; the limit of a call to the engine
BYTES_MAX = 2 * 1024 * 1024


class MessageBatch:
    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.reports: list[WorkerReport] = []
        self.deletions: list[DeleteJobMessage] = []
        self.queues: dict[str, None] = {}  # that may have idle workers and waiting jobs, in order
        self.list_requests: list[ListMessage] = []
        self.has_tick = False
        self._mentioned: set[tuple[str, str]] = set()  # jobs that were added, reported on or deleted
        self._changed: set[tuple[str, str]] = set()  # jobs that were added or deleted
        self._idle: set[bytes] = set()
        self._asked_for_job: set[tuple[str, bytes]] = set()
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return self.size == 0 and not (self.list_requests or self.has_tick)

    @property
    def size(self) -> int:
        """Return the number of messages that change something."""
        return len(self.jobs) + len(self.reports) + len(self.deletions)

    def has_room_for(self, message: Message) -> bool:
        """Whether the message fits. False: the messages before it must take effect first."""
        if self.list_requests or self.has_tick:
            return False
        if isinstance(message, AddJobMessage):
            job = message.job
            return self._fits(len(self.jobs), len(job.payload.data)) and (job.queue, job.unique) not in self._mentioned
        if isinstance(message, DeleteJobMessage):
            # An earlier message may have the job dispatched before this one deletes it.
            is_affected = message.queue in self.queues or (message.queue, message.uuid) in self._mentioned
            return self._fits(len(self.deletions), 0) and not is_affected
        if isinstance(message, WorkerMessage):
            report = message.report
            size = len(report.result.data) if report.result else 0
            # The sender of an old idle message must not get a job that an earlier message of the batch dispatches.
            is_old = report.idle_ms > 0 and not message.is_fresh
            must_wait = self._must_wait(report) or (is_old and report.queue in self.queues)
            return self._fits(len(self.reports), size) and not must_wait
        return True

    def _must_wait(self, report: WorkerReport) -> bool:
        """Whether a worker reports on a job that it may get only in this batch, or asks for a second job."""
        if report.kind == "idle":
            return (report.queue, report.worker) in self._asked_for_job
        return (report.queue, report.unique) in self._changed or report.worker in self._idle

    def _fits(self, count: int, size: int) -> bool:
        return count < MESSAGES_MAX and self._bytes + size <= BYTES_MAX

    def add(self, message: Message) -> None:
        if isinstance(message, AddJobMessage):
            job = message.job
            self.jobs.append(job)
            self._bytes += len(job.payload.data)
            self._changed.add((job.queue, job.unique))
            self._mentioned.add((job.queue, job.unique))
            self.queues[job.queue] = None
        elif isinstance(message, DeleteJobMessage):
            self.deletions.append(message)
            self._changed.add(message)
            self._mentioned.add(message)
        elif isinstance(message, WorkerMessage):
            self._add_report(message)
        elif isinstance(message, ListMessage):
            self.list_requests.append(message)
        elif isinstance(message, TickMessage):
            self.has_tick = True

    def _add_report(self, message: WorkerMessage) -> None:
        report = message.report
        self.reports.append(report)
        self._bytes += len(report.result.data) if report.result else 0
        if report.unique:
            self._mentioned.add((report.queue, report.unique))
        if message.makes_idle:
            self._idle.add(report.worker)
            if report.kind == "idle":
                self._asked_for_job.add((report.queue, report.worker))
            if message.is_fresh:
                self.queues[report.queue] = None


def split_into_batches(messages: Iterable[Message]) -> list[MessageBatch]:
    batches = [MessageBatch()]
    for message in messages:
        if not batches[-1].has_room_for(message):
            batches.append(MessageBatch())
        batches[-1].add(message)
    return [batch for batch in batches if not batch.is_empty]
