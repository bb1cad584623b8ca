"""Batches of jobs: collects the jobs of batch tasks and calls their function for many at once.

Each job remains a run of its own that is stopped, retried and reported separately. It only waits here for its part of
the result.
"""

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

from .threads import JobThreadPool, ThreadRun

log = logging.getLogger("windlass.worker")


class BatchRunner:
    """Batches of one worker. A batch has at most as many jobs as the worker has slots."""

    def __init__(self, tasks: Iterable[Task[..., Any]], threads: JobThreadPool, shared: SharedDependencies) -> None:
        self._threads = threads
        self._shared = shared
        self._collectors: dict[str, BatchCollector] = {}
        for task in tasks:
            if task.batch is not None and task.batch.most > threads.most:
                log.warning(
                    "%s wants batches of %d jobs and this worker has %d slots, which limits its batches. "
                    "For larger batches, raise the worker's concurrency.", task.name, task.batch.most, threads.most,
                )  # fmt: skip

    async def value(self, task: BatchTask[Any, Any], payload: Any) -> Any:
        """Wait for the result of one job. If it is cancelled, the other jobs of its batch continue."""
        item = task.decode_item(payload)
        batch = self._collectors.get(task.name)
        if batch is None:
            batch = self._collectors[task.name] = BatchCollector(task, self._threads, self._shared, self._close)
        future = batch.add(item)
        try:
            return await future
        except asyncio.CancelledError:
            await batch.leave()
            raise

    def _close(self, batch: BatchCollector) -> None:
        """Stop adding jobs to this batch."""
        del self._collectors[batch.task.name]


class BatchCollector:
    """One batch: collects jobs until it is full or its time is over, then calls the function."""

    def __init__(
        self, task: BatchTask[Any, Any], threads: JobThreadPool, shared: SharedDependencies, close: Any
    ) -> None:
        self.task = task
        self._threads = threads
        self._shared = shared
        self._close = close
        self._most = min(task.batch.most, threads.most)
        self._entries: list[tuple[Any, asyncio.Future[Any]]] = []
        self._code: asyncio.Task[None] | ThreadRun[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(task.batch.wait_ms / 1000, self._start)

    def add(self, item: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._entries.append((item, future))
        if len(self._entries) >= self._most and len(self._waiting()) >= self._most:
            self._timer.cancel()
            self._start()
        return future

    def _waiting(self) -> list[tuple[Any, asyncio.Future[Any]]]:
        return [entry for entry in self._entries if not entry[1].done()]

    def _start(self) -> None:
        """Call the function for all jobs that have not been stopped while waiting."""
        self._close(self)
        self._entries = self._waiting()
        items = [item for item, _ in self._entries]
        if not items:
            return
        if self.task.is_async:
            self._code = self._loop.create_task(self._on_loop(items), context=contextvars.Context())
            return
        self._code = self._threads.start(lambda: self.task.perform_many(items, self._shared))
        self._code.future.add_done_callback(self._thread_ended)

    async def _on_loop(self, items: list[Any]) -> None:
        try:
            self._deliver(await self.task.perform_many(items, self._shared))
        except BaseException as error:  # the event loop would not survive SystemExit or KeyboardInterrupt
            self._fail(error)

    def _thread_ended(self, future: asyncio.Future[Any]) -> None:
        error = future.exception()
        if error is not None:
            self._fail(error)
        else:
            self._deliver(future.result())

    def _deliver(self, results: Any) -> None:
        try:
            each = self._split_results(results)
        except BadInput as error:
            self._fail(error)
            return
        for (_, future), result in zip(self._entries, each, strict=True):
            if future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(_make_raisable(result))
            else:
                future.set_result(result)

    def _split_results(self, results: Any) -> list[Any]:
        count = len(self._entries)
        if results is None:
            return [None] * count
        if not isinstance(results, list | tuple):
            raise BadInput(f"{self.task.name} must return None or a list, not {type(results).__name__}.")
        if len(results) != count:
            raise BadInput(f"{self.task.name} returned {len(results)} results for {count} jobs.")
        return list(results)

    def _fail(self, error: BaseException) -> None:
        for _, future in self._waiting():
            future.set_exception(_make_raisable(error))

    async def leave(self) -> None:
        """Handle a stopped job.

        The last job to stop also stops the code, and keeps its slot until the code has ended.
        """
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
    """Wrap an exception that a future cannot carry."""
    if not isinstance(error, StopIteration):
        return error
    stand_in = RuntimeError(f"The function raised {type(error).__name__}.")
    stand_in.__cause__ = error
    return stand_in
