"""Producers and workers in threads, which note what the engine acknowledged, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.service.helpers import new, take
from tests.support.engine_process import EngineProcess
from windlass.core.errors import WindlassError
from windlass.core.operations import Enqueued, Finish
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

QUEUE = "load"


def open_service(engine: EngineProcess) -> Service:
    return Service(Store(parse_url(engine.unix_url), patience_s=1.0))


class BackupLoad:
    """Chains of three jobs that wait for each other, with a job that stays, as fast as possible."""

    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine
        self._is_over = threading.Event()
        self.added: dict[bytes, float] = {}  # when the answer came
        self.ending: dict[bytes, float] = {}  # when the request was sent
        self.ended: dict[bytes, float] = {}  # when its answer came
        works = (self._produce, self._produce, self._work, self._work)
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[Service], None]) -> None:
        service = open_service(self._engine)
        try:
            while not self._is_over.is_set():
                work(service)
        except WindlassError:
            pass  # the engine was killed
        finally:
            service.store.close_sync()

    def _produce(self, service: Service) -> None:
        first, second, third = (service.store.new_id(QUEUE) for _ in range(3))
        jobs = [
            new(QUEUE, id=first),
            new(QUEUE, id=second, after=(first,), on_failure="fail"),
            new(QUEUE, id=third, after=(first, second)),
            new(QUEUE, delay_ms=3_600_000),
        ]
        answers = service.enqueue(jobs, whole=True).wait()
        now = time.time()
        self.added |= {answer.id: now for answer in answers if isinstance(answer, Enqueued)}

    def _work(self, service: Service) -> None:
        jobs = take(service, QUEUE, 5)
        self.ending |= {job.id: time.time() for job in jobs}
        if jobs:
            service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
        now = time.time()
        self.ended |= {job.id: now for job in jobs}
