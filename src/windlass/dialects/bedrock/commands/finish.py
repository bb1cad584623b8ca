"""FinishJob, RetryJob and FailJob.

Each is a single step of the engine, guarded by the lease token and the revision that the decision was based on."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.errors import Refusal
from windlass.core.job import Blob, Job
from windlass.core.operations import CompleteWithChildren, Finish
from windlass.core.scheduling.repeat import parse
from windlass.core.states import State
from windlass.core.validation.bounds import RESULT_MAX
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.jobs import NumberedJobs, decide_with_retries
from windlass.dialects.bedrock.parameters import NAME_MAX, Parameters
from windlass.dialects.bedrock.record import DEFAULT_PRIORITY, RUNNING_STATES, state_of
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.wire import BedrockRequest, Reply

from .create_parameters import is_made_here, key_after_rename

NOT_RUNNING = (405, "Can only retry/finish RUNNING and RUNQUEUED jobs")
PARENT_RUNS = (405, "Can only retry/finish child job when parent is PAUSED")
OUT_OF_RANGE = "repeat_out_of_range"
DELAY_DIGITS_MAX = 8


class NextRun(NamedTuple):
    """Time of the next run, if any."""

    run_at_ms: int | None = None
    delay_ms: int | None = None
    is_out_of_range: bool = False


NO_NEXT_RUN = NextRun()


class FinishCommands:
    def __init__(self, jobs: NumberedJobs) -> None:
        self._jobs = jobs
        self._service = jobs.service

    async def finish_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        return await self._finish_or_retry(request, client, is_retry=False)

    async def retry_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        return await self._finish_or_retry(request, client, is_retry=True)

    async def _finish_or_retry(self, request: BedrockRequest, client: BedrockClient, *, is_retry: bool) -> Reply:
        parameters = Parameters.from_request(request)
        number, token = parameters.number("jobID"), parameters.lease_token()

        async def decide() -> Reply:
            job = await self._jobs.require(number, client.principal, token)
            await self._check(job)
            if not is_retry and parameters.get("data") and _has_result(job):
                return await self._finish_with_result(job, parameters)
            content, drops_repeat = _new_data(parameters, job, self._jobs.data_max)
            name = _new_name(parameters) if is_retry else ""
            priority = parameters.priority(self._jobs.rules.priorities) if is_retry else None
            when = await self._next_run(parameters, job, is_retry, drops_repeat or parameters.is_true("ignoreRepeat"))
            conclusion = CompleteWithChildren(
                id=job.id,
                token=job.lease_token,
                then="fail" if when.is_out_of_range else "again" if is_retry else "finish",
                run_at_ms=when.run_at_ms,
                delay_ms=when.delay_ms,
                name=name,
                unique=key_after_rename(job, name),
                priority=None if priority is None else DEFAULT_PRIORITY - priority,
                payload=content,
                reason=OUT_OF_RANGE if when.is_out_of_range else "error",
                if_revision=job.revision,
                if_parent_waits=True,
                in_any_state=job.is_hidden,
            )
            await self._service.complete_with_children([conclusion]).one()
            return Reply(200, "OK", settled=(job.id,))

        return await decide_with_retries(decide)

    async def _finish_with_result(self, job: Job, parameters: Parameters) -> Reply:
        """Finish a job of another dialect. Its data become the result, which the creator of the job may wait for."""
        result, _ = _new_data(parameters, job, min(self._jobs.data_max, RESULT_MAX))
        await self._service.finish([Finish(job.id, job.lease_token, result)]).one()
        return Reply(200, "OK", settled=(job.id,))

    async def _check(self, job: Job) -> None:
        if state_of(job) not in RUNNING_STATES and not job.is_hidden:
            raise CommandRefused(*NOT_RUNNING)
        if job.parent is None:
            return
        (parent,) = await self._service.job([job.parent])
        if isinstance(parent, Refusal) or parent.job.state.is_ended:
            return  # the engine is about to detach its children
        if parent.job.state is not State.WAITING:
            raise CommandRefused(*PARENT_RUNS)

    async def _next_run(self, parameters: Parameters, job: Job, is_retry: bool, ignores_repeat: bool) -> NextRun:
        if job.repeat and not ignores_repeat:
            now_ms = await self._service.now()
            # A delivery with retryAfter moves the time of the job to the end of its lease.
            planned_at_ms = (job.planned_at_ms if job.retake else None) or job.run_at_ms
            next_at_ms = parse(job.repeat).next_at_ms(planned_at_ms, job.started_at_ms or now_ms, now_ms)
            return NextRun(next_at_ms, is_out_of_range=next_at_ms is None)
        if not is_retry:
            return NO_NEXT_RUN
        run_at_ms = parameters.instant("nextRun")
        return NextRun(run_at_ms) if run_at_ms is not None else NextRun(delay_ms=_delay_ms(parameters))

    async def fail_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        parameters = Parameters.from_request(request)
        number, token = parameters.number("jobID"), parameters.lease_token()

        async def decide() -> Reply:
            job = await self._jobs.require(number, client.principal, token)
            if state_of(job) not in RUNNING_STATES:
                raise CommandRefused(405, "Can only fail RUNNING or RUNQUEUED jobs")
            content = parameters.data(self._jobs.data_max)
            conclusion = CompleteWithChildren(
                id=job.id,
                token=job.lease_token,
                then="fail",
                payload=None if content is None else Blob(data.without_keys(content, data.MOCKED)),
                if_revision=job.revision,
            )
            await self._service.complete_with_children([conclusion]).one()
            return Reply(200, "OK", settled=(job.id,))

        return await decide_with_retries(decide)


def _has_result(job: Job) -> bool:
    """Whether FinishJob ends a job of another dialect for good. A parent of Bedrock reads the data of its children."""
    is_last_run = not job.repeat and job.parent is None and not job.has_members
    return is_last_run and job.lease_token != 0 and not is_made_here(job)


def _new_data(parameters: Parameters, job: Job, data_max: int) -> tuple[Blob | None, bool]:
    """Return the new data without the server's keys (None: it stays), and whether it ends the repetition."""
    content = parameters.data(data_max)
    if content is None:
        return _without_count(job), False
    if data.is_object(content) and data.has_key(content, data.MOCKED) != job.is_hidden:
        raise CommandRefused(500, "Mock Mismatch")
    drops_repeat = data.has_key(content, data.DELETE) and bytes(data.decode_fields(content)[data.DELETE]) == b"true"
    return Blob(data.without_keys(content, data.MOCKED, data.COUNT)), drops_repeat


def _without_count(job: Job) -> Blob | None:
    """Remove a counter that a client wrote into the data. None: there is none."""
    stored = data.stored_value(job.payload)
    return Blob(data.without_keys(stored, data.COUNT)) if data.has_key(stored, data.COUNT) else None


def _new_name(parameters: Parameters) -> str:
    if not parameters.get("name"):
        return ""
    parameters.bounded_text("name", NAME_MAX)
    return parameters.name()


def _delay_ms(parameters: Parameters) -> int:
    text = parameters.get("delay") or "0"
    digits = text.lstrip("+-")
    if not (digits.isascii() and digits.isdigit()) or len(text) - len(digits) > 1 or len(digits) > DELAY_DIGITS_MAX:
        raise CommandRefused(402, "Malformed delay")
    if int(text) < 0:
        raise CommandRefused(402, "Must specify a non-negative delay when retrying")
    return int(text) * 1000
