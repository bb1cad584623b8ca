"""Where commands are answered: a table of verbs, and what becomes of refusals. What a command does is in commands/."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from windlass.core.errors import Refusal
from windlass.core.operations import Enqueued
from windlass.core.validation.jobs import PAYLOAD_MAX
from windlass.service import Service
from windlass.service.batcher import Gathering

from .client import Begun, Client
from .commands.create import Creating, created
from .commands.delete import Removing
from .commands.finish import Ending
from .commands.get import Getting
from .commands.query import Querying
from .commands.update import Changing
from .jobs import CONFIGURATION, Jobs
from .refusals import Refused, reply_to
from .verbs import QUEUE
from .wire import Reply, Request

UNKNOWN = Reply(430, "Unrecognized command")


class Desk:
    def __init__(
        self, service: Service, gathering: Gathering, *, data_max: int = PAYLOAD_MAX, query_timeout_s: float = 0.0
    ) -> None:
        """`data_max`: bytes of a job's data. `query_timeout_s`: 0 for the usual limit."""
        if data_max > PAYLOAD_MAX:
            service = Service(service.store, payload_max=data_max)
            gathering = Gathering(service)
        self._service = service
        self._is_ready = False
        self._opening = asyncio.Lock()
        jobs = Jobs(service, data_max)
        creating, ending, changing, removing = Creating(jobs, gathering), Ending(jobs), Changing(jobs), Removing(jobs)
        self._creating = creating
        self._getting = Getting(jobs)
        self._querying = Querying(jobs, query_timeout_s)
        self._commands: dict[str, Callable[[Request], Awaitable[Reply]]] = {
            "createjob": creating.create_job,
            "createjobs": creating.create_jobs,
            "getjob": self._getting.get_job,
            "getjobs": self._getting.get_jobs,
            "queryjob": changing.query_job,
            "updatejob": changing.update_job,
            "finishjob": ending.finish_job,
            "retryjob": ending.retry_job,
            "failjob": ending.fail_job,
            "canceljob": removing.cancel_job,
            "deletejob": removing.delete_job,
            "requeuejobs": removing.requeue_jobs,
            "query": self._querying.query,
        }

    def begin(self, request: Request) -> Begun | Reply | None:
        if not self._is_ready or request.verb.lower() != "createjob":
            return None
        try:
            future = self._creating.begin(request)
        except Refused as refused:
            return refused.reply
        except Refusal as refusal:
            return reply_to(refusal)
        return None if future is None else Begun(future, _created)

    async def answer(self, request: Request, client: Client) -> Reply:
        command = self._commands.get(request.verb.lower())
        if command is None:
            return UNKNOWN
        try:
            if not self._is_ready:
                await self._open()
            return await command(request)
        except Refused as refused:
            return refused.reply
        except Refusal as refusal:
            return reply_to(refusal)

    async def undelivered(self, request: Request, reply: Reply) -> None:
        await self.give_back(reply.jobs)

    async def give_back(self, jobs: tuple[tuple[bytes, int], ...]) -> None:
        await self._getting.give_back(jobs)

    def stop(self) -> None:
        self._querying.pool.stop()

    async def close(self) -> None:
        self._getting.close()
        await self._querying.pool.close()

    async def _open(self) -> None:
        """Before the first command: the queue is divided by name, and nothing in it ends by itself. What somebody has
        configured otherwise since then stays."""
        async with self._opening:
            if not (await self._service.configuration(QUEUE)).name_lanes:
                await self._service.configure(QUEUE, CONFIGURATION)
            self._is_ready = True


def _created(future: asyncio.Future[Enqueued]) -> Reply:
    try:
        return created(future.result())
    except Refusal as refusal:
        return reply_to(refusal)
