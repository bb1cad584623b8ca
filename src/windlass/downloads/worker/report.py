"""Report of an ended download: stored as the result of its job and sent as its callback.

Any worker may finish a job of the queue, with any result. So a stored result is checked before it is sent, and every
body is encoded from checked fields."""

from __future__ import annotations

import re

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.ids import number_of_download_id
from windlass.core.job import Attempt, Blob, Codec, Job
from windlass.core.states import State
from windlass.service import Service

from .order import Order, download_id_of, is_id, order_or_none, path_of

MESSAGE_MAX = 2000  # characters of an error; JSON may need six bytes for each
REPORT_MAX = 64 * 1024  # bytes: a larger result is not kept with a callback
URL_MAX = 4096  # characters of `download_url`
STATUS_MAX = 999
_IMAGE_SIZE = re.compile(r"(?:[0-9]{1,10}x[0-9]{1,10})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MESSAGES = {
    "cancelled": "The download was cancelled.",
    "lease_expired": "The download was begun several times and never ended.",
    "expired": "The download was not begun in time.",
    "timeout": "The download took longer than its job may.",
}
INVALID_RESULT = "The job was finished by another worker, whose result is not a valid report of this download."


class DownloadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the callback, in the order of the body."""

    success: bool
    error: str = ""
    extra: str = ""
    image_size: str = ""
    resource_url: str = ""
    download_url: str = ""
    job_id: str = ""
    response_code: int = 0
    delivered: bool = True
    delivery_error: str = ""


class DownloadError(msgspec.Struct, frozen=True):
    """Error that is stored with a failed attempt."""

    message: str = ""
    response_code: int = 0
    job_id: str = ""  # download id, for a callback that outlives the record of its job


class EndedDownload(msgspec.Struct, frozen=True, kw_only=True):
    """Job of the queue that has ended, with what is known of it."""

    job: Job
    order: Order | None  # None: the payload was cut or is no order
    id: str  # download id; empty: it was not kept
    result: Blob | None
    last_attempt: Attempt | None


def success_report(order: Order, base: str, response_code: int, image_size: str) -> DownloadReport:
    return DownloadReport(
        success=True,
        extra=order.extra,
        image_size=image_size,
        resource_url=order.url,
        download_url=f"{base.rstrip('/')}/{path_of(order.id)}",
        job_id=order.id,
        response_code=response_code,
    )


def encode_report(report: DownloadReport) -> bytes:
    """Encode a report as a result. One that is too large for a callback loses what the order says."""
    encoded = msgspec.json.encode(report)
    if len(encoded) <= REPORT_MAX:
        return encoded
    return msgspec.json.encode(msgspec.structs.replace(report, extra="", resource_url=""))


async def callback_body(service: Service, pending: PendingCallback) -> bytes:
    """Build the body of a callback. It is the same in every delivery."""
    return msgspec.json.encode(report_of(await ended_download(service, pending)))


async def ended_download(service: Service, pending: PendingCallback) -> EndedDownload:
    order = order_or_none(pending.job)
    return EndedDownload(
        job=pending.job,
        order=order,
        id=await download_id_of(service, pending.job, order),
        result=pending.result,
        last_attempt=pending.last_attempt,
    )


def report_of(ended: EndedDownload) -> DownloadReport:
    """Return the report of a job that has ended, whichever worker ended it."""
    if ended.job.state == State.FINISHED:
        return valid_report(ended) or _failure_report(ended, DownloadError(INVALID_RESULT))
    return _failure_report(ended, _error_of(ended))


def valid_report(ended: EndedDownload) -> DownloadReport | None:
    """Return the report that a worker stored as the result. None if the result is anything else, or a report of
    another download."""
    if ended.result is None or ended.result.codec != Codec.JSON or len(ended.result.data) > REPORT_MAX:
        return None
    try:
        report = msgspec.json.decode(ended.result.data, type=DownloadReport)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return report if _is_success(report) and _belongs_to(report, ended) else None


def _is_success(report: DownloadReport) -> bool:
    return (
        report.success
        and report.delivered
        and not report.error
        and not report.delivery_error
        and 0 <= report.response_code <= STATUS_MAX
        and _IMAGE_SIZE.fullmatch(report.image_size) is not None
    )


def _belongs_to(report: DownloadReport, ended: EndedDownload) -> bool:
    url = report.download_url
    if not _is_id_of(report.job_id, ended) or not url.endswith(f"/{path_of(report.job_id)}"):
        return False
    if len(url) > URL_MAX or _CONTROL.search(url):
        return False
    if ended.order is None:
        return not ended.job.payload_is_whole
    said = {(report.extra, report.resource_url), (ended.order.extra, ended.order.url)}
    return len(said - {("", "")}) <= 1


def _is_id_of(text: str, ended: EndedDownload) -> bool:
    """Tell whether a text is the download id. If the id was not kept, only its form can be checked."""
    if ended.order is None and not ended.job.payload_is_whole:
        return is_id(text)
    return text == ended.id if ended.id else number_of_download_id(text) is not None


def _failure_report(ended: EndedDownload, error: DownloadError) -> DownloadReport:
    known = error.job_id if _is_id_of(error.job_id, ended) else ""
    return DownloadReport(
        success=False,
        error=error.message[:MESSAGE_MAX],
        extra=ended.order.extra if ended.order else "",
        resource_url=ended.order.url if ended.order else "",
        job_id=ended.id or known or ended.job.key,
        response_code=error.response_code if 0 <= error.response_code <= STATUS_MAX else 0,
    )


def _error_of(ended: EndedDownload) -> DownloadError:
    last = ended.last_attempt
    if ended.job.state == State.CANCELLED:
        return DownloadError(_MESSAGES["cancelled"])
    return DownloadError() if last is None else error_of_attempt(last)


def error_of_attempt(attempt: Attempt) -> DownloadError:
    """Return the error of a failed attempt, of this worker or another one."""
    return _read_error(attempt.error) or DownloadError(_MESSAGES.get(attempt.reason, attempt.reason))


def _read_error(blob: Blob | None) -> DownloadError | None:
    if blob is None or blob.codec == Codec.RAW:
        return None
    decode = msgspec.json.decode if blob.codec == Codec.JSON else msgspec.msgpack.decode
    try:
        return decode(blob.data, type=DownloadError)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
