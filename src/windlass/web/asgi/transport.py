"""ASGI transport of a web application: its plans and answers, within the bounds of the listener."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from windlass.web.listener.bounds import Bounds
from windlass.web.listener.messages import Application, Client, Head, Plan, Response

from .body import BodyBudget
from .host_watch import HostWatch
from .request import AsgiRequest
from .scope import MountedHead, Receive, Scope, Send

T = TypeVar("T")


class MountableApplication(Application, Protocol):
    def is_public(self, head: Head) -> bool: ...


class AsgiTransport:
    """Requests of one event loop. `identify` asks the host who sends a request; None: the application authenticates by
    itself. `on_host_stop` is called when the server of the host stops."""

    def __init__(
        self,
        application: MountableApplication,
        *,
        on_answer: Callable[[Head | None, int, int, float, Client], None],
        on_host_stop: Callable[[], None],
        identify: Callable[[MountedHead], Awaitable[None]] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.application = application
        self.on_answer = on_answer
        self.bounds = bounds or Bounds()
        self.budget = BodyBudget(self.bounds.bodies_bytes_max)
        self.host_watch = HostWatch(on_host_stop)
        self._identify = identify
        self._running: set[asyncio.Task[Any]] = set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await AsgiRequest(self, scope, receive, send).run()

    async def plan(self, head: MountedHead) -> Plan | Response:
        if self._identify is not None and not self.application.is_public(head):
            await self._identify(head)
        return self.application.plan(head)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a task that `stop` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def stop(self, grace_s: float) -> None:
        """Wait for handlers that still run, and cancel them after the grace period."""
        running = {task for task in self._running if task is not asyncio.current_task()}
        if running:
            _, left = await asyncio.wait(running, timeout=grace_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
