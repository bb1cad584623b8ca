"""Reports of workers on the end of a job. Only the worker that holds the job can report on it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.background.push_message import retry_of
from windlass.core import errors
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Fail, Finish, Update
from windlass.pauses import random_fraction
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import WORKERS
from windlass.wire.encoding import MSGPACK

from .jobs import find_job
from .protocol import NIL, JobId, Value, check_value, make_routes, parse_job_id
from .status import Reason, encode_failure, keeps_result, note_of_end
from .workers import NEEDS_WORKER, parse_worker_header

routes = make_routes("Workers")


INSTANT_CHARS = 64


class Report(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Fields of all reports. Unknown fields are ignored."""

    job_id: JobId | UnsetType = UNSET
    id: Annotated[JobId, Meta(description="Another name of `job_id`.")] | UnsetType = UNSET
    finished_at: Annotated[Annotated[str, Meta(max_length=INSTANT_CHARS)] | None, Meta(description="ISO 8601.")] = None

    def validated_job_id(self) -> str:
        """Check the report, and return the id of its job."""
        if self.job_id is not UNSET and self.id is not UNSET and self.job_id != self.id:
            raise BadInput("job_id and id name different jobs; give only one of them.")
        if self.finished_at is not None:
            _check_instant(self.finished_at)
        named = self.id if self.job_id is UNSET else self.job_id
        if named is UNSET:
            raise BadInput("job_id is missing; give the id of the job.")
        return named


class Success(Report, frozen=True, kw_only=True, tag="success"):
    result: Value | UnsetType = UNSET


class Failure(Report, frozen=True, kw_only=True, tag="failure"):
    reason: Reason
    should_retry: bool
    message: Annotated[str, Meta(description="For people.")]
    error: Value | UnsetType = UNSET


def _check_instant(text: str) -> None:
    try:
        is_instant = len(text) > 10 and datetime.fromisoformat(text) is not None
    except ValueError:
        is_instant = False
    if not is_instant:
        raise BadInput("finished_at must be a date and time in ISO 8601, such as 2026-01-31T12:00:00Z.")


@routes.post(
    "/done", operation="report_done", status=204, roles=WORKERS, body=Success | Failure, body_media=MSGPACK,
    response_media=MSGPACK, is_listed=False, refuses=(
        errors.UnknownJob, errors.UnknownWorker, errors.StaleLease, errors.AlreadyEnded, errors.Unsettled,
        errors.TooLarge, errors.EngineError,
    ), **NEEDS_WORKER,
)  # fmt: skip
async def report_done(context: RequestContext[Any, None]) -> None:
    """Report how a job ended. The job may be of any queue of the token, whatever dialect enqueued it.

    409 if this worker does not hold the job, or no longer: nothing has changed then. A report may arrive before the
    worker's answer to the push of the job was read."""
    worker, report = parse_worker_header(context), context.body
    job_id = parse_job_id(report.validated_job_id())
    outcome = _outcome_blob(report)
    job = (await find_job(context, job_id)).job
    if job.state.is_ended:
        raise errors.AlreadyEnded
    if not job.state.is_leased or job.worker != worker:
        raise errors.StaleLease("This worker does not hold the job, or no longer; nothing was changed.")
    await _apply_report(context, job, report, outcome)


def _outcome_blob(report: Success | Failure) -> Blob:
    if isinstance(report, Success):
        value = NIL if report.result is UNSET else report.result
        return Blob(check_value("result", value), Codec.MSGPACK)
    error = check_value("error", NIL if report.error is UNSET else report.error)
    return encode_failure(report.message, error, report.finished_at)


async def _apply_report(context: RequestContext[Any, Any], job: Job, report: Success | Failure, outcome: Blob) -> None:
    """Apply the report with the token of the lease that was read. A report that comes too late is refused."""
    if isinstance(report, Success):
        await _finish(context, job, report, outcome)
        return
    retry = retry_of(job)
    is_retried = report.should_retry and retry.wants_retry(job.attempt)
    await context.service.fail([
        Fail(
            id=job.id,
            token=job.lease_token,
            then="retry" if is_retried else "final",
            delay_ms=retry.delay_ms(job.attempt, random_fraction()) if is_retried else 0,
            reason=report.reason,
            error=outcome,
        )
    ]).one()  # fmt: skip


async def _finish(context: RequestContext[Any, Any], job: Job, report: Success, outcome: Blob) -> None:
    if report.finished_at is not None:
        note = note_of_end(report.finished_at)
        await context.service.update([Update(id=job.id, token=job.lease_token, note=note)]).one()
    kept = outcome if keeps_result(job) else None
    await context.service.finish([Finish(job.id, job.lease_token, kept)]).one()
