"""Gathers the jobs of batch tasks and calls their function for many at once. Each job stays a run of its own: it is
stopped, retried and reported by itself, and here only waits for its part of the outcome."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterable
from typing import Any

from windlass.core.errors import BadInput
from windlass.sdk.failures import Stopped
from windlass.sdk.tasks.batch import BatchTask
from windlass.sdk.tasks.injection import SharedDependencies
from windlass.sdk.tasks.task import Task

from .threads import ThreadPool, ThreadRun

log = logging.getLogger("windlass.worker")


class BatchRunner:
    """For one worker. A batch holds at most as many jobs as the worker has slots: it does not wait for more."""

    def __init__(self, tasks: Iterable[Task[..., Any]], threads: ThreadPool, shared: SharedDependencies) -> None:
        self._threads = threads
        self._shared = shared
        self._gathering: dict[str, BatchCollector] = {}
        for task in tasks:
            if task.batch is not None and task.batch.most > threads.most:
                log.warning(
                    "%s wants batches of %d jobs and this worker has %d slots: no batch is larger than that. "
                    "Give the worker more concurrency.", task.name, task.batch.most, threads.most,
                )  # fmt: skip

    async def value(self, task: BatchTask[Any, Any], payload: Any) -> Any:
        """Waits for the outcome of one job. When it is cancelled the others of its batch go on."""
        item = task.item_of(payload)
        batch = self._gathering.get(task.name)
        if batch is None:
            batch = self._gathering[task.name] = BatchCollector(task, self._threads, self._shared, self._closed)
        place = batch.add(item)
        try:
            return await place
        except asyncio.CancelledError:
            await batch.left()
            raise

    def _closed(self, batch: BatchCollector) -> None:
        """From now on it takes no more."""
        del self._gathering[batch.task.name]


class BatchCollector:
    """One batch: jobs gather until there are enough or the time is over, then their function is called."""

    def __init__(self, task: BatchTask[Any, Any], threads: ThreadPool, shared: SharedDependencies, closed: Any) -> None:
        self.task = task
        self._threads = threads
        self._shared = shared
        self._closed = closed
        self._most = min(task.batch.most, threads.most)
        self._places: list[tuple[Any, asyncio.Future[Any]]] = []
        self._code: asyncio.Task[None] | ThreadRun[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(task.batch.wait_ms / 1000, self._begin)

    def add(self, item: Any) -> asyncio.Future[Any]:
        place: asyncio.Future[Any] = self._loop.create_future()
        self._places.append((item, place))
        if len(self._places) >= self._most and len(self._waiting()) >= self._most:
            self._timer.cancel()
            self._begin()
        return place

    def _waiting(self) -> list[tuple[Any, asyncio.Future[Any]]]:
        return [one for one in self._places if not one[1].done()]

    def _begin(self) -> None:
        """Those that were stopped while they waited are not part of it."""
        self._closed(self)
        self._places = self._waiting()
        items = [item for item, _ in self._places]
        if not items:
            return
        if self.task.is_async:
            self._code = self._loop.create_task(self._on_loop(items), context=contextvars.Context())
            return
        self._code = self._threads.start(lambda: self.task.perform_many(items, self._shared))
        self._code.future.add_done_callback(self._thread_ended)

    async def _on_loop(self, items: list[Any]) -> None:
        try:
            self._tell(await self.task.perform_many(items, self._shared))
        except BaseException as error:  # the event loop would not survive some of them
            self._fail(error)

    def _thread_ended(self, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if error is not None:
            self._fail(error)
        else:
            self._tell(future.result())

    def _tell(self, results: Any) -> None:
        try:
            each = self._spread(results)
        except BadInput as error:
            self._fail(error)
            return
        for (_, place), result in zip(self._places, each, strict=True):
            if place.done():
                continue
            if isinstance(result, BaseException):
                place.set_exception(_make_raisable(result))
            else:
                place.set_result(result)

    def _spread(self, results: Any) -> list[Any]:
        count = len(self._places)
        if results is None:
            return [None] * count
        if not isinstance(results, list | tuple):
            raise BadInput(f"{self.task.name} must return None or a list, not {type(results).__name__}.")
        if len(results) != count:
            raise BadInput(f"{self.task.name} returned {len(results)} results for {count} jobs.")
        return list(results)

    def _fail(self, error: BaseException) -> None:
        for _, place in self._waiting():
            place.set_exception(_make_raisable(error))

    async def left(self) -> None:
        """A job was stopped. The last one takes the code with it, and keeps its slot until that has ended."""
        code = self._code
        if code is None or self._waiting():
            return
        if isinstance(code, ThreadRun):
            code.interrupt(Stopped)
            await asyncio.wait([code.future])
        elif not code.done():
            code.cancel()
            await asyncio.wait([code])


def _make_raisable(error: BaseException) -> BaseException:
    """What a future cannot carry."""
    if not isinstance(error, StopIteration):
        return error
    stand_in = RuntimeError(f"The function raised {type(error).__name__}.")
    stand_in.__cause__ = error
    return stand_in
