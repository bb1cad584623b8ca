"""GET /download: state of one download and of its callback."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core import errors
from windlass.core.callbacks.callback import JobCallbacks
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Job, Timeline
from windlass.core.states import State
from windlass.downloads.worker.order import QUEUE, download_id_of, order_or_none
from windlass.downloads.worker.report import DownloadReport, EndedDownload, error_of_attempt, report_of
from windlass.service import Service
from windlass.web.app.problems import NotFound
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import JOB_READERS

from .orders import find_job
from .refusals import routes_of

routes = routes_of("Downloads")

DownloadState: TypeAlias = Literal["PENDING", "IN_PROGRESS", "SUCCESS", "FAILED"]
CallbackState: TypeAlias = Literal["PENDING", "IN_PROGRESS", "DELIVERED", "FAILED"]


class CallbackStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a callback, and its last failed delivery."""

    state: CallbackState | None = None
    attempts: int = 0
    error: str = ""


class DownloadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a download and of its callback. Instants are milliseconds since 1970."""

    id: str
    url: Annotated[str, Meta(description="As it was ordered; empty if the job is no order.")]
    aggr_id: str
    download_state: DownloadState
    callback_state: Annotated[
        CallbackState | None, Meta(description="null: the download has not ended, or its end sends no callback.")
    ]
    response_code: Annotated[int, Meta(description="Of the last attempt that ended; 0: there was no answer.")]
    error: Annotated[str, Meta(description="Of the last attempt that failed; empty after a success.")]
    download_url: str
    image_size: str
    attempts: Annotated[int, Meta(description="Attempts that were begun.")]
    progress: Annotated[float, Meta(description="Of the running attempt, from 0 to 1; 0 if the length is not known.")]
    note: Annotated[str, Meta(description="Received bytes of the running attempt.")]
    callback_attempts: int
    callback_error: str
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    next_attempt_at_ms: Annotated[int | None, Meta(description="When a download that waits for a retry is due.")]


@routes.get(
    "/download/{name}", operation="download_status", roles=JOB_READERS, response=DownloadStatus,
    response_media="application/json", refuses=(NotFound, errors.EngineError),
)  # fmt: skip
async def download_status(context: RequestContext[None, None]) -> DownloadStatus:
    """Return the state of a download and of its callback.

    404: there is no such download. After its callback was delivered, nothing of a download is kept."""
    context.check_queue(QUEUE)
    name = context.path["name"]
    try:
        job_id = await find_job(context.service, name)
        timeline = None if job_id is None else await context.service.job([job_id]).one()
    except (UnknownJob, AlreadyEnded):
        timeline = None
    if timeline is None:
        raise _unknown()
    return await _status(context.service, timeline, name)


def _unknown() -> NotFound:
    return NotFound("There is no download of this id; its callback may have been delivered.")


async def _status(service: Service, timeline: Timeline, name: str) -> DownloadStatus:
    job, order = timeline.job, order_or_none(timeline.job)
    if await download_id_of(service, job, order) != name:
        raise _unknown()  # the name is a unique key or a number, and the download has another id
    report = await _report(service, timeline, name)
    callback = await _callback_status(service, job)
    return DownloadStatus(
        id=name,
        url=order.url if order else "",
        aggr_id=order.aggr_id if order else "",
        download_state=_download_state(job, report),
        callback_state=callback.state,
        response_code=report.response_code,
        error=report.error,
        download_url=report.download_url,
        image_size=report.image_size,
        attempts=job.attempt,
        progress=job.progress,
        note=job.note,
        callback_attempts=callback.attempts,
        callback_error=callback.error,
        created_at_ms=job.created_at_ms,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        next_attempt_at_ms=job.run_at_ms if job.state == State.SCHEDULED else None,
    )


def _download_state(job: Job, report: DownloadReport) -> DownloadState:
    if job.state.is_ended:
        return "SUCCESS" if report.success else "FAILED"
    return "IN_PROGRESS" if job.state.is_leased else "PENDING"


async def _report(service: Service, timeline: Timeline, name: str) -> DownloadReport:
    """Return the report of the end, or of the last failed attempt."""
    job = timeline.job
    last = timeline.attempts[-1] if timeline.attempts else None
    if not job.state.is_ended:
        error = error_of_attempt(last) if last else None
        return DownloadReport(
            success=False, error=error.message if error else "", response_code=error.response_code if error else 0
        )
    ending = await service.result(job.id)
    result = ending.result if ending else None
    return report_of(EndedDownload(job=job, order=order_or_none(job), id=name, result=result, last_attempt=last))


async def _callback_status(service: Service, job: Job) -> CallbackStatus:
    wanted = job.callback is not None and job.state.is_ended and job.state.label in job.callback.events
    if not wanted:
        return CallbackStatus()
    found: JobCallbacks = await service.job_callbacks(job.id)
    if not found.callbacks:
        return CallbackStatus(state="DELIVERED" if found.is_all else None)
    last = found.callbacks[-1]  # a job that was retried may have ended before
    state: CallbackState = "PENDING"
    if last.due_at_ms is None:
        state = "FAILED"
    elif last.is_leased and last.due_at_ms > await service.now():
        state = "IN_PROGRESS"
    return CallbackStatus(state=state, attempts=last.attempt, error=last.error)
