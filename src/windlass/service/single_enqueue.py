"""One job that somebody enqueues: awaited it goes the general way; where there is no event loop, a plain one goes
straight to the engine (store/batching/fast_enqueue.py)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.batching.fast_enqueue import FastEnqueue
from windlass.store.operation import Operation


class SingleEnqueue(Operation[Enqueued]):
    """A question asked twice is about the same job."""

    __slots__ = ("_general", "_generally", "_job", "_straight")

    def __init__(
        self, straight: FastEnqueue, job: PreparedJob, general: Callable[[PreparedJob], Operation[Enqueued]]
    ) -> None:
        self._straight = straight
        self._job = job
        self._general = general
        self._generally: Operation[Enqueued] | None = None

    def wait(self) -> Enqueued:
        if self._generally is None and self._straight.fits(self._job.template):
            if not self._job.id:
                self._job = self._straight.with_new_id(self._job)
            answer = self._straight.enqueue(self._job)
            if isinstance(answer, Refusal):
                raise answer
            if answer is not None:
                return answer
        return self._asked().wait()

    def _asked(self) -> Operation[Enqueued]:
        if self._generally is None:
            self._generally = self._general(self._job)
        return self._generally

    def __await__(self) -> Generator[Any, None, Enqueued]:
        return self._asked().__await__()

    def start_sync(self) -> Callable[[], Enqueued]:
        return self._asked().start_sync()

    def start(self) -> Coroutine[Any, Any, Enqueued]:
        return self._asked().start()
