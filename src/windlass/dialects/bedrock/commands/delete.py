"""CancelJob, DeleteJob and RequeueJobs."""

from __future__ import annotations

import re

from windlass.core.access.tokens import Principal
from windlass.core.errors import Refusal, WrongState
from windlass.core.job import Job
from windlass.core.operations import CompleteWithChildren
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.jobs import STALE_DECISION, NumberedJobs, decide_with_retries
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.record import state_of
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.replies import OK
from windlass.dialects.bedrock.wire import BedrockRequest, Reply

from .create_parameters import key_after_rename

_NUMBER = re.compile(r"\d{1,18}", re.ASCII)

NOT_DELETED = {
    "RUNNING": (405, "Can't delete a RUNNING job"),
    "PAUSED": (405, "Can't delete a parent jobs with children running"),
}
NOT_CANCELLED = ("RUNNING", "FINISHED", "PAUSED", "CANCELLED")
REQUEUE_BATCH = 500  # jobs requeued in one step


class DeleteCommands:
    def __init__(self, jobs: NumberedJobs) -> None:
        self._jobs = jobs
        self._service = jobs.service

    async def cancel_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        number = Parameters.from_request(request).number("jobID")

        async def decide() -> Reply:
            job = await self._jobs.require(number, client.principal)
            if await self._has_children(job):
                raise CommandRefused(404, "Invalid jobID - Cannot cancel a job with children")
            if job.parent is None:
                raise CommandRefused(404, "Invalid jobID - Cannot cancel a job without a parent")
            if state_of(job) in NOT_CANCELLED:
                return OK
            await self._service.cancel([job.id], counts_waiting=False, even_failed=True, spares_running=True).one()
            return Reply(200, "OK", settled=(job.id,))

        return await decide_with_retries(decide)

    async def _has_children(self, job: Job) -> bool:
        if not job.has_members:
            return False
        page = await self._service.list_members(job.id, most=1)
        return bool(page.members or page.cursor)

    async def delete_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        number = Parameters.from_request(request).number("jobID")

        async def decide() -> Reply:
            job = await self._jobs.require(number, client.principal)
            if refused := NOT_DELETED.get(state_of(job)):
                raise CommandRefused(*refused)
            await self._service.delete([job.id], even_leased=job.retake, even_waiting=False).one()
            return Reply(200, "OK", settled=(job.id,))

        return await decide_with_retries(decide)

    async def requeue_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        parameters = Parameters.from_request(request)
        numbers = [
            int(text) for part in parameters.get("jobIDs").split(",") if _NUMBER.fullmatch(text := part.strip(" "))
        ]
        name = parameters.name() if parameters.get("name") else ""
        settled: list[bytes] = []
        for start in range(0, len(numbers), REQUEUE_BATCH):
            jobs = await self._jobs.by_numbers(numbers[start : start + REQUEUE_BATCH], client.principal)
            left = {job.id: job for job in jobs}
            await self._requeue(left, name, parameters.is_true("decrementFailures"), client.principal)
            settled += [job.id for job in jobs]
        return Reply(200, "OK", settled=tuple(settled))

    async def _requeue(self, left: dict[bytes, Job], name: str, returns_delivery: bool, principal: Principal) -> None:
        """Requeue all jobs in a single step, then again those that have changed in between."""

        async def decide() -> None:
            known = list(left.values())
            left.clear()
            answers = await self._service.complete_with_children(
                [_requeue_operation(job, name, returns_delivery) for job in known]
            )
            for job, answer in zip(known, answers, strict=True):
                if isinstance(answer, Refusal) and not isinstance(answer, WrongState):  # a group cannot be requeued
                    if not isinstance(answer, STALE_DECISION):
                        raise answer
                    await self._reload(job.id, left, principal)
            if left:
                raise next(answer for answer in answers if isinstance(answer, STALE_DECISION))

        if left:
            await decide_with_retries(decide)

    async def _reload(self, job_id: bytes, left: dict[bytes, Job], principal: Principal) -> None:
        job = await self._jobs.by_id(job_id, principal)
        if job is not None:
            left[job_id] = job


def _requeue_operation(job: Job, name: str, returns_delivery: bool) -> CompleteWithChildren:
    returned = 1 if returns_delivery and data.is_counted(job) else 0
    return CompleteWithChildren(
        id=job.id,
        then="again",
        run_at_ms=max(1000, job.created_at_ms - job.created_at_ms % 1000),
        name=name,
        unique=key_after_rename(job, name),
        attempt=max(0, job.attempt - returned),
        if_revision=job.revision,
        in_any_state=True,
        keeps_members=True,
    )
