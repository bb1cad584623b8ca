"""Assignment of jobs that arrive in another way than through this process, or are requeued, to idle workers.

The engine is not called while no worker is idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from windlass.core.errors import WindlassError
from windlass.core.operations import Dispatch, LeaseRef
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .messages import ProcessorOptions
from .pipes import OutputPipe

log = logging.getLogger("windlass.processor")

QUEUES_AT_ONCE = 1000
STOP_ANSWER_S = 5.0  # to wait for the engine's answer when the session stops


class IdleWorkerWatch:
    """Waits for jobs in the queues of idle workers. `note_idle` adds a queue; `run` ends when it is cancelled."""

    def __init__(
        self,
        service: Service,
        options: ProcessorOptions,
        output: OutputPipe[LeaseRef],
        write_assignments: Callable[[Dispatch], None],
    ) -> None:
        self._service = service
        self._options = options
        self._output = output
        self._write_assignments = write_assignments
        self._idle_until_s: dict[str, float] = {}
        self._watched: dict[int, frozenset[str]] = {}  # queues by partition
        self._changed: dict[int, asyncio.Event] = {}

    @property
    def queues(self) -> list[str]:
        now_s = time.monotonic()
        self._idle_until_s = {queue: until_s for queue, until_s in self._idle_until_s.items() if until_s > now_s}
        return list(self._idle_until_s)

    def note_idle(self, queue: str, idle_ms: int) -> None:
        until_s = time.monotonic() + idle_ms / 1000
        self._idle_until_s[queue] = max(until_s, self._idle_until_s.get(queue, 0.0))
        partition = self._service.store.partition_of_queue(queue)
        if queue not in self._watched.get(partition, ()) and partition in self._changed:
            self._changed[partition].set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for partition in range(self._service.store.partitions):
                self._changed[partition] = asyncio.Event()
                group.create_task(self._watch_partition(partition), name=f"windlass-processor-{partition}")

    async def _watch_partition(self, partition: int) -> None:
        watching = RetryLoop(log, "Could not give jobs to idle workers", WindlassError, level=logging.ERROR)
        await watching.forever(lambda: self._watch_once(partition, self._changed[partition]))

    async def _watch_once(self, partition: int, changed: asyncio.Event) -> None:
        changed.clear()
        queues = [queue for queue in self.queues if self._service.store.partition_of_queue(queue) == partition]
        self._watched[partition] = frozenset(queues[:QUEUES_AT_ONCE])
        if not queues:
            await changed.wait()
            return
        await self._output.wait_for_room()
        await self._wait_for_jobs(queues[:QUEUES_AT_ONCE], changed)

    async def _wait_for_jobs(self, queues: list[str], changed: asyncio.Event) -> None:
        left_s = max(self._idle_until_s.get(queue, 0.0) for queue in queues) - time.monotonic()
        options = self._options
        assigning = asyncio.ensure_future(
            self._service.assign(
                queues,
                accept_ms=options.accept_ms,
                spends_attempt=options.attempts > 0,
                wait_ms=max(1, int(left_s * 1000)),
                until=changed,
            )
        )
        try:
            self._write_assignments(await asyncio.shield(assigning))
        except asyncio.CancelledError:
            # Jobs that the engine has assigned by now must reach their workers.
            changed.set()
            await asyncio.wait({assigning}, timeout=STOP_ANSWER_S)
            if assigning.done() and not assigning.cancelled() and assigning.exception() is None:
                self._write_assignments(assigning.result())
            assigning.cancel()
            raise
