"""Commands whose client does not wait: `Connection: forget`, and commands with a time of execution.

They are kept in memory, as in Bedrock. A server that stops finishes the running commands, drops the others, and logs
their number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from windlass.dialects.bedrock.client import BedrockClient, CommandHandler
from windlass.dialects.bedrock.replies import QUEUED, TOO_MANY_QUEUED
from windlass.dialects.bedrock.wire import BedrockRequest, Reply

log = logging.getLogger("windlass.bedrock")

QUEUED_MAX = 10_000


class DeferredCommands:
    def __init__(self, handler: CommandHandler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._number = 0

    def __len__(self) -> int:
        return len(self._timers) + len(self._running)

    def add(self, request: BedrockRequest, client: BedrockClient, pause_s: float, timeout_s: float) -> Reply:
        if len(self) >= QUEUED_MAX:
            return TOO_MANY_QUEUED
        self._number += 1
        arguments = self._number, request, BedrockClient(client.peer, client.principal), timeout_s
        self._timers[self._number] = self._loop.call_later(pause_s, self._start, *arguments)
        return QUEUED

    def _start(self, number: int, request: BedrockRequest, client: BedrockClient, timeout_s: float) -> None:
        del self._timers[number]
        self.run(self._answer(request, client, timeout_s))

    async def _answer(self, request: BedrockRequest, client: BedrockClient, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            reply = await self._handler.answer(request, client)
        if reply.jobs:
            await self._handler.return_undelivered(request, reply)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task. `stop` waits for it."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "A deferred command failed. Its client was answered before and does not learn of it.", exc_info=error
            )

    async def stop(self, grace_s: float) -> None:
        if self._timers:
            log.warning(
                "Dropped %d deferred commands: the server stops before their time of execution.", len(self._timers)
            )
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
