"""CrashBedrockJob and ClearCrashedBedrockJobs: jobs of some names are failed instead of handed out.

The patterns are in the memory of this process, as in Bedrock. Other server processes do not know them, and a restart
forgets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from msgspec import structs

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Job
from windlass.core.operations import CompleteWithChildren, Taken
from windlass.core.text.glob import compile_glob
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
        self._patterns: dict[str, Callable[[str], bool]] = {}  # tests of names by GLOB

    async def crash_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        _check_local(client)
        parts = Parameters.from_request(request).get("names").split(",")
        names = list(dict.fromkeys(name for part in parts if (name := part.strip(" "))))
        for name in names:
            _check_pattern(name)
        if len({*self._patterns, *names}) > PATTERNS_MAX:
            raise CommandRefused(402, "Too many names")
        self._patterns |= {name: compile_glob(name) for name in names}
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
        tests = self._patterns.values()
        names = {name for name in {job.name for job in taken.jobs} if any(matches(name) for matches in tests)}
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


def _check_local(client: BedrockClient) -> None:
    if not client.is_local:
        raise CommandRefused(401, "Unauthorized", "This command is for clients on the machine of the server.")


def _check_pattern(name: str) -> None:
    try:
        check_glob(name)
    except (BadInput, TooLarge):
        raise CommandRefused(402, "Malformed names") from None
