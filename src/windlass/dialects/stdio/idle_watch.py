"""Jobs that come in another way than through this process, or come back: workers that are idle here are given them at
once. Nothing is asked while nobody is idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from windlass.core.errors import WindlassError
from windlass.core.operations import Dispatch, LeaseRef
from windlass.service import Service

from .messages import ProcessorOptions
from .pipes import OutputPipe

log = logging.getLogger("windlass.processor")

QUEUES_AT_ONCE = 1000
TROUBLE_PAUSE_S = 1.0
STOP_ANSWER_S = 5.0  # for the engine's answer when it is told to stop


class IdleWorkerWatch:
    """`note` that somebody is idle in a queue for so long; `run` until cancelled."""

    def __init__(
        self,
        service: Service,
        options: ProcessorOptions,
        outlet: OutputPipe[LeaseRef],
        hand_out: Callable[[Dispatch], None],
    ) -> None:
        self._service = service
        self._options = options
        self._output = outlet
        self._write_assignments = hand_out
        self._idle_until_s: dict[str, float] = {}
        self._watched: dict[int, frozenset[str]] = {}  # partition -> what is waited for now
        self._changed: dict[int, asyncio.Event] = {}

    @property
    def queues(self) -> list[str]:
        now_s = time.monotonic()
        self._idle_until_s = {queue: until_s for queue, until_s in self._idle_until_s.items() if until_s > now_s}
        return list(self._idle_until_s)

    def note_idle(self, queue: str, idle_ms: int) -> None:
        until_s = time.monotonic() + idle_ms / 1000
        self._idle_until_s[queue] = max(until_s, self._idle_until_s.get(queue, 0.0))
        home = self._service.store.partition_of_queue(queue)
        if queue not in self._watched.get(home, ()) and home in self._changed:
            self._changed[home].set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for home in range(self._service.store.partitions):
                self._changed[home] = asyncio.Event()
                group.create_task(self._watch_partition(home), name=f"windlass-processor-{home}")

    async def _watch_partition(self, home: int) -> None:
        changed = self._changed[home]
        while True:
            changed.clear()
            queues = [one for one in self.queues if self._service.store.partition_of_queue(one) == home]
            self._watched[home] = frozenset(queues[:QUEUES_AT_ONCE])
            if not queues:
                await changed.wait()
                continue
            await self._output.wait_for_room()
            try:
                await self._wait_for_jobs(queues[:QUEUES_AT_ONCE], changed)
            except WindlassError as error:
                log.error("Idle workers cannot be given jobs (%s); trying again.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    async def _wait_for_jobs(self, queues: list[str], changed: asyncio.Event) -> None:
        left_s = max(self._idle_until_s.get(queue, 0.0) for queue in queues) - time.monotonic()
        options = self._options
        asking = asyncio.ensure_future(
            self._service.assign(
                queues,
                accept_ms=options.accept_ms,
                spends_attempt=options.attempts > 0,
                wait_ms=max(1, int(left_s * 1000)),
                until=changed,
            )
        )
        try:
            self._write_assignments(await asyncio.shield(asking))
        except asyncio.CancelledError:
            # What the engine has given by now reaches its workers.
            changed.set()
            await asyncio.wait({asking}, timeout=STOP_ANSWER_S)
            if asking.done() and not asking.cancelled() and asking.exception() is None:
                self._write_assignments(asking.result())
            asking.cancel()
            raise
