"""QueryJob and UpdateJob."""

from __future__ import annotations

from windlass.core.job import Blob, Job
from windlass.core.operations import Edit
from windlass.core.scheduling.repeat import parse
from windlass.dialects.bedrock import data, record, timeouts
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.jobs import NumberedJobs, decide_with_retries
from windlass.dialects.bedrock.parameters import MALFORMED_REPEAT, Parameters
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.wire import BedrockRequest, Reply, encode_json


class UpdateCommands:
    def __init__(self, jobs: NumberedJobs, job_timeout_ms: int) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._job_timeout_ms = job_timeout_ms

    async def query_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        number = Parameters.from_request(request).number("jobID")
        job = await self._jobs.require(number, client.principal)
        fields = record.fields_of(job, number)
        fields |= timeouts.fields(job, self._job_timeout_ms, timeouts.expires_at_ms(job))
        return Reply(200, "OK", encode_json(fields))

    async def update_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        parameters = Parameters.from_request(request)
        number, token = parameters.number("jobID"), parameters.lease_token()
        content = parameters.data(self._jobs.data_max)
        if content is None:
            raise CommandRefused(402, "Missing data")
        rule, priority = parameters.repeat(), parameters.priority(self._jobs.rules.priorities)
        next_run_ms = parameters.instant("nextRun")
        clears_repeat = parameters.is_true("shouldClearRepeat")

        async def decide() -> Reply:
            job = await self._jobs.require(number, client.principal, token)
            run_at_ms = next_run_ms
            if run_at_ms is None and rule and not clears_repeat:
                run_at_ms = await self._next_at_ms(job, rule)
            edit = Edit(
                id=job.id,
                payload=_payload(job, content),
                repeat="" if clears_repeat else rule or None,
                priority=None if priority is None else record.DEFAULT_PRIORITY - priority,
                run_at_ms=run_at_ms,
                attempt=data.delivery_count_in(content) if data.is_counted(job) else None,
                if_revision=job.revision,
                if_token=token,
                in_any_state=True,
            )
            await self._service.edit([edit]).one()
            return Reply(200, "OK")

        return await decide_with_retries(decide)

    async def _next_at_ms(self, job: Job, rule: str) -> int:
        now_ms = await self._service.now()
        next_at_ms = parse(rule).next_at_ms(job.run_at_ms, job.started_at_ms or now_ms, now_ms)
        if next_at_ms is None:
            raise CommandRefused(*MALFORMED_REPEAT)
        return next_at_ms


def _payload(job: Job, content: bytes) -> Blob:
    """Return the data without the keys that the server adds: whether a job is mocked and its counter are job fields."""
    counted = (data.COUNT,) if data.is_counted(job) else ()
    return Blob(data.without_keys(content, data.MOCKED, *counted))
