"""Enqueue of one job: without an event loop, a simple job takes the fast path (store/batching/fast_enqueue.py)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.batching.fast_enqueue import FastEnqueue
from windlass.store.operation import Operation


class SingleEnqueue(Operation[Enqueued]):
    """Enqueue of one job. If it runs twice, both runs are about the same job."""

    __slots__ = ("_enqueue_generally", "_fast_enqueue", "_id", "_job", "_started")

    def __init__(
        self,
        fast_enqueue: FastEnqueue,
        job: PreparedJob,
        enqueue_generally: Callable[[PreparedJob], Operation[Enqueued]],
    ) -> None:
        self._fast_enqueue = fast_enqueue
        self._job = job
        self._enqueue_generally = enqueue_generally
        self._id = job.id
        self._started: Operation[Enqueued] | None = None

    def wait(self) -> Enqueued:
        fast_enqueue, job = self._fast_enqueue, self._job
        if self._started is None and fast_enqueue.fits(job.template):
            if not self._id:
                self._id = fast_enqueue.new_id(job)
            answer = fast_enqueue.enqueue(self._id, job)
            if type(answer) is Enqueued:
                return answer
            if isinstance(answer, Refusal):
                raise answer
        return self._general_operation().wait()

    def _general_operation(self) -> Operation[Enqueued]:
        if self._started is None:
            self._started = self._enqueue_generally(PreparedJob(self._job.template, self._job.payload, self._id))
        return self._started

    def __await__(self) -> Generator[Any, None, Enqueued]:
        return self._general_operation().__await__()

    def start_sync(self) -> Callable[[], Enqueued]:
        return self._general_operation().start_sync()

    def start(self) -> Coroutine[Any, Any, Enqueued]:
        return self._general_operation().start()
