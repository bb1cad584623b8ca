"""The source of a migration, and a run of a migration in this process."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from windlass.core.job import Job
from windlass.core.operations import Finish, Take
from windlass.migration.entries import Reader
from windlass.migration.mover import Mover
from windlass.migration.report import MigrationReport
from windlass.sdk.deployment import make_service
from windlass.service import Service
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.job_source import JobSource


class SourceRedis:
    def __init__(self, url: str) -> None:
        self.url = url
        endpoint = parse_url(url)
        assert isinstance(endpoint, Endpoint)
        self._connection = SyncConnection.open(endpoint)

    def run(self, commands: str) -> None:
        """Run commands as a person writes them, one per line."""
        for line in commands.strip().splitlines():
            self.call(*shlex.split(line.strip()))

    def call(self, *command: Any) -> Any:
        return self._connection.call(*command)

    def dump(self) -> dict[bytes, bytes]:
        """Return the whole content."""
        return {key: self.call("DUMP", key) for key in sorted(self.call("KEYS", "*"))}

    def close(self) -> None:
        self._connection.close()


def migrate(service: Service, source: JobSource, reader: Reader, *, dry: bool = False) -> MigrationReport:
    """Run a migration in this process."""
    mover = Mover(source, reader, MigrationReport(dialect="", source=str(source), is_dry_run=dry))
    if dry:
        mover.count_all(lambda _: None)
        return mover.report

    async def move() -> None:
        async with service.store.clone() as store:
            await mover.move_all(make_service(store), lambda _: None)

    asyncio.run(move())
    return mover.report


def drain(service: Service, queue: str) -> list[Job]:
    """Take and finish all jobs that can be taken, in their order."""
    done: list[Job] = []
    while jobs := service.take(Take(queues=(queue,), most=100)).wait().jobs:
        service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
        done += jobs
    return done
