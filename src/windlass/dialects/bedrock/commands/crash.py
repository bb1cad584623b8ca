"""CrashBedrockJob and ClearCrashedBedrockJobs: jobs of some names are failed instead of handed out.

The patterns are in the memory of this process, as in Bedrock. Other server processes do not know them, and a restart
forgets them."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Sequence

from msgspec import structs

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Job
from windlass.core.operations import CompleteWithChildren, Taken
from windlass.core.validation.values import check_glob
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.replies import OK
from windlass.dialects.bedrock.wire import BedrockRequest, Reply
from windlass.service import Service

log = logging.getLogger("windlass.bedrock")

PATTERNS_MAX = 1_000
REASON = "crashed"


class CrashCommands:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._patterns: dict[str, None] = {}  # in the order of their arrival

    async def crash_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        _check_local(client)
        names = [name for part in Parameters.from_request(request).get("names").split(",") if (name := part.strip(" "))]
        for name in names:
            _check_pattern(name)
        patterns = self._patterns | dict.fromkeys(names)
        if len(patterns) > PATTERNS_MAX:
            raise CommandRefused(402, "Too many names")
        self._patterns = patterns
        if names:
            log.warning(
                "GetJob fails due jobs with these names: %s. ClearCrashedBedrockJobs ends it.", ", ".join(names)
            )
        return OK

    async def clear_crashed_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        _check_local(client)
        self._patterns = {}
        return OK

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    async def without_crashed(self, taken: Taken) -> Taken:
        """Fail the taken jobs whose name matches a pattern, and return the others."""
        names = self._matching({job.name for job in taken.jobs})
        crashed = [job for job in taken.jobs if job.name in names]
        if not crashed:
            return taken
        await self._fail(crashed)
        return structs.replace(taken, jobs=[job for job in taken.jobs if job.name not in names])

    async def _fail(self, jobs: Sequence[Job]) -> None:
        log.info("Failed %d jobs whose names are stopped by CrashBedrockJob.", len(jobs))
        await self._service.complete_with_children(
            [CompleteWithChildren(id=job.id, token=job.lease_token, then="fail", reason=REASON) for job in jobs]
        )

    def _matching(self, names: set[str]) -> set[str]:
        with contextlib.closing(sqlite3.connect(":memory:")) as matcher:
            return {
                name
                for name in names
                if any(matcher.execute("SELECT ? GLOB ?", (name, pattern)).fetchone()[0] for pattern in self._patterns)
            }


def _check_local(client: BedrockClient) -> None:
    if not client.is_local:
        raise CommandRefused(401, "Unauthorized", "This command is for clients on the machine of the server.")


def _check_pattern(name: str) -> None:
    try:
        check_glob(name)
    except (BadInput, TooLarge):
        raise CommandRefused(402, "Malformed names") from None
