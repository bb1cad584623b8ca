"""GetJob and GetJobs. Jobs that cannot be delivered are released, and their delivery does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.errors import Refusal
from windlass.core.job import Job
from windlass.core.operations import LeaseRef, Taken
from windlass.core.queue import FOREVER_MS
from windlass.core.scheduling.repeat import parse_modifiers
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, PAGE_MAX, TAKE_MAX
from windlass.dialects.bedrock import data, name_filter, record
from windlass.dialects.bedrock.jobs import NumberedJobs
from windlass.dialects.bedrock.parameters import NAMES_MAX, Parameters
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.takes import TrackedTakes
from windlass.dialects.bedrock.verbs import QUEUE
from windlass.dialects.bedrock.wire import BedrockRequest, Reply, encode_json

TIMEOUT = (303, "Timeout")
NO_JOB_FOUND = (404, "No job found")


class GetCommands:
    def __init__(self, jobs: NumberedJobs) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._takes = TrackedTakes(jobs.service)

    def close(self) -> None:
        self._takes.close()

    async def get_job(self, request: BedrockRequest) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if parameters.is_set("numResults"):
            raise CommandRefused(402, "Cannot use numResults with GetJob; try GetJobs")
        taken = await self._take(parameters, name, 1, request.connection == "wait")
        rows = await self._rows(taken)
        return Reply(200, "OK", encode_json(rows[0] if rows else {}), jobs=_lease_pairs(taken.jobs))

    async def get_jobs(self, request: BedrockRequest) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if not parameters.get("numResults"):
            raise CommandRefused(402, "Missing numResults")
        most = min(max(parameters.number("numResults"), 1), TAKE_MAX)
        taken = await self._take(parameters, name, most, request.connection == "wait")
        rows = [msgspec.Raw(encode_json(row)) for row in await self._rows(taken)]
        return Reply(200, "OK", encode_json({"jobs": rows}), jobs=_lease_pairs(taken.jobs))

    async def _take(self, parameters: Parameters, name: str, most: int, waits: bool) -> Taken:
        is_mocked = parameters.is_set("mockRequest", "getMockedJobs")
        wants = name_filter.filter_for_names(name, parameters.priority(), is_mocked)
        taken = await self._takes.take(wants, most, _wait_ms(parameters) if waits else 0)
        if not taken.jobs and (waits or not taken.used_up):
            raise CommandRefused(*(TIMEOUT if waits else NO_JOB_FOUND))
        return taken

    async def _rows(self, taken: Taken) -> list[dict[str, Any]]:
        try:
            await self._set_deadlines(taken.jobs)
            numbers = await self._jobs.numbers(job.id for job in taken.jobs)
            parents = await self._parents(taken.jobs)
            return [
                record.fields_before_take(job, numbers[job.id], taken.started_before.get(job.id))
                | parents.get(job.id, {})
                | (await self._children(job) if job.has_members else {})
                for job in taken.jobs
            ]
        except BaseException:  # also cancellation: the client never learns of these jobs
            self._service.store.run_in_background(self.release_jobs(_lease_pairs(taken.jobs)))
            raise

    async def release_jobs(self, jobs: Sequence[tuple[bytes, int]]) -> None:
        """Return jobs to their place in the queue without counting the delivery. Skip jobs that were reported on."""
        if jobs:
            await self._service.release([LeaseRef(*lease) for lease in jobs])

    async def _set_deadlines(self, jobs: Sequence[Job]) -> None:
        """Remove the deadline of jobs from other dialects, and set the deadline of leases that depend on the calendar.

        Bedrock clients do not extend leases, so a job without retryAfter must not expire."""
        expiring = [job for job in jobs if not job.retake and job.lease_deadline_at_ms is not None]
        if expiring:
            await self._service.extend([LeaseRef(*lease) for lease in _lease_pairs(expiring)], lease_ms=FOREVER_MS)
        for job in jobs:
            if not job.lease_rule or job.started_at_ms is None:
                continue
            modifiers = parse_modifiers(job.lease_rule)
            if modifiers.fixed_ms is None:
                until_ms = modifiers.apply_ms(job.started_at_ms) or DURATION_MAX
                lease_ms = min(max(1, until_ms - job.started_at_ms), DURATION_MAX)
                await self._service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=lease_ms)

    async def _parents(self, jobs: Sequence[Job]) -> dict[bytes, dict[str, Any]]:
        """Return the fields about the parent, by id of the child."""
        ids = list(dict.fromkeys(job.parent for job in jobs if job.parent is not None))
        if not ids:
            return {}
        answers = await self._service.job(ids)
        found = {
            answer.job.id: answer.job
            for answer in answers
            if not isinstance(answer, Refusal) and answer.job.queue == QUEUE
        }
        numbers = await self._jobs.numbers(found)
        return {
            job.id: {"parentJobID": numbers[job.parent], "parentData": data.object_for_client(parent, parent.attempt)}
            for job in jobs
            if job.parent is not None and (parent := found.get(job.parent)) is not None and job.parent in numbers
        }

    async def _children(self, job: Job) -> dict[str, Any]:
        """Return the fields about ended children, for a parent that runs again. Empty: there are none."""
        found: dict[State, list[Job]] = {State.FINISHED: [], State.CANCELLED: []}
        cursor = ""
        while True:
            page = await self._service.list_members(job.id, tuple(found), most=PAGE_MAX, cursor=cursor)
            for member in page.members:
                # A child in another queue is not a Bedrock job, and the token may not cover that queue.
                if member.job.parent == job.id and member.job.queue == QUEUE:
                    found[member.job.state].append(member.job)
            cursor = page.cursor
            if not cursor:
                break
        if not any(found.values()):
            return {}
        numbers = await self._jobs.numbers(child.id for children in found.values() for child in children)
        finished, cancelled = (
            [
                {"data": data.object_for_client(child, child.attempt), "jobID": numbers[child.id]}
                for child in sorted(children, key=lambda child: child.sequence)
                if child.id in numbers
            ]
            for children in found.values()
        )
        return {"finishedChildJobs": finished, "cancelledChildJobs": cancelled}


def _lease_pairs(jobs: Sequence[Job]) -> tuple[tuple[bytes, int], ...]:
    return tuple((job.id, job.lease_token) for job in jobs)


def _wait_ms(parameters: Parameters) -> int:
    """Return the time to wait. Without a timeout it is the longest duration, some centuries."""
    text = parameters.get("timeout")
    timeout_ms = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
    return min(timeout_ms, DURATION_MAX) if timeout_ms else DURATION_MAX
