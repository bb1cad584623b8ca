"""Table of commands by verb, and replies to refusals. The commands themselves are in commands/."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.core.validation.bounds import PAYLOAD_MAX
from windlass.service import Service
from windlass.service.batcher import RequestBatcher
from windlass.web.listener.deferred import DeferredAnswer

from .client import BedrockClient
from .commands.crash import CrashCommands
from .commands.create import CreateCommands
from .commands.delete import DeleteCommands
from .commands.finish import FinishCommands
from .commands.get import GetCommands
from .commands.query import QueryCommand
from .commands.update import UpdateCommands
from .jobs import QUEUE_SETTINGS, NumberedJobs
from .refusals import REFUSED, reply_to_refusal
from .replies import UNKNOWN_COMMAND
from .rules import DOCUMENT, Rules
from .verbs import QUEUE
from .wire import BedrockRequest, Reply


class CommandRouter:
    def __init__(
        self,
        service: Service,
        batcher: RequestBatcher,
        *,
        data_max: int = PAYLOAD_MAX,
        query_timeout_s: float = 0.0,
        rules: Rules = DOCUMENT,
        job_timeout_ms: int = 0,
    ) -> None:
        """`data_max`: bytes of a job's data. `query_timeout_s`: 0 for the default. `job_timeout_ms`: time that a worker
        may have a job without a timeout of its own; 0: any time."""
        if data_max > PAYLOAD_MAX:
            service = Service(service.store, payload_max=data_max)
            batcher = RequestBatcher(service)
        self._service = service
        self._is_ready = False
        self._setup_lock = asyncio.Lock()
        jobs = NumberedJobs(service, data_max, rules)
        create, finish, update, delete = (
            CreateCommands(jobs, batcher),
            FinishCommands(jobs),
            UpdateCommands(jobs, job_timeout_ms),
            DeleteCommands(jobs),
        )
        self._create = create
        crash = CrashCommands(service)
        self._get = GetCommands(service, crash, rules, job_timeout_ms)
        self._query = QueryCommand(jobs, query_timeout_s)
        commands: dict[str, Callable[[BedrockRequest, BedrockClient], Awaitable[Reply]]] = {
            "createjob": create.create_job,
            "createjobs": create.create_jobs,
            "getjob": self._get.get_job,
            "getjobs": self._get.get_jobs,
            "queryjob": update.query_job,
            "updatejob": update.update_job,
            "finishjob": finish.finish_job,
            "retryjob": finish.retry_job,
            "failjob": finish.fail_job,
            "canceljob": delete.cancel_job,
            "deletejob": delete.delete_job,
            "requeuejobs": delete.requeue_jobs,
            "query": self._query.query,
            "crashbedrockjob": crash.crash_jobs,
            "clearcrashedbedrockjobs": crash.clear_crashed_jobs,
        }
        self._commands = {verb: command for verb, command in commands.items() if verb in rules.verbs}

    def start(self, request: BedrockRequest, client: BedrockClient) -> DeferredAnswer[Any, Reply] | Reply | None:
        if not self._is_ready or request.verb.lower() != "createjob":
            return None
        try:
            return self._create.start(request, client)
        except REFUSED as refused:
            return reply_to_refusal(refused)

    async def answer(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        command = self._commands.get(request.verb.lower())
        if command is None:
            return UNKNOWN_COMMAND
        try:
            if not self._is_ready:
                await self._configure_queue()
            return await command(request, client)
        except REFUSED as refused:
            return reply_to_refusal(refused)

    async def return_undelivered(self, request: BedrockRequest, reply: Reply) -> None:
        await self.release_jobs(reply.jobs)

    async def release_jobs(self, jobs: tuple[tuple[bytes, int], ...]) -> None:
        await self._get.release_jobs(jobs)

    def stop(self) -> None:
        self._query.pool.stop()

    async def close(self) -> None:
        self._get.close()
        await self._query.pool.close()

    async def _configure_queue(self) -> None:
        """Give the queue name lanes, and leases and retention without end, before the first command.

        A queue that has name lanes was configured before. Its settings stay as they are."""
        async with self._setup_lock:
            if not (await self._service.configuration(QUEUE)).name_lanes:
                await self._service.configure(QUEUE, QUEUE_SETTINGS)
            self._is_ready = True
