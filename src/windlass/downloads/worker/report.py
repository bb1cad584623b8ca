"""Report of an ended download: stored as the result of its job and sent as its callback. No I/O."""

from __future__ import annotations

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.job import Blob, Codec
from windlass.core.states import State

from .order import BadOrder, Order, path_of, read_order

_MESSAGES = {
    "cancelled": "The download was cancelled.",
    "lease_expired": "The download was begun several times and never ended.",
    "expired": "The download was not begun in time.",
    "timeout": "The download took longer than its job may.",
}


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


def callback_body(pending: PendingCallback, base: str) -> bytes:
    """Build the body of a callback. It is the same in every delivery. `base` is used only if the report was too large
    to be stored."""
    finished = pending.job.state == State.FINISHED
    if finished and pending.result is not None and pending.result.codec == Codec.JSON:
        return pending.result.data
    order = _order_of(pending)
    if finished:
        return msgspec.json.encode(success_report(order, base, 200, ""))
    error = _error_of(pending)
    return msgspec.json.encode(
        DownloadReport(
            success=False,
            error=error.message,
            extra=order.extra,
            resource_url=order.url,
            job_id=order.id,
            response_code=error.response_code,
        )
    )


def _order_of(pending: PendingCallback) -> Order:
    """Return the order. If the payload was cut or is invalid, only the id is known."""
    try:
        return read_order(pending.job)
    except BadOrder:
        return Order(url="", id=pending.job.unique or pending.job.key)


def _error_of(pending: PendingCallback) -> DownloadError:
    last = pending.last_attempt
    if pending.job.state == State.CANCELLED or last is None:
        return DownloadError(_MESSAGES["cancelled"] if pending.job.state == State.CANCELLED else "")
    return _read_error(last.error) or DownloadError(_MESSAGES.get(last.reason, last.reason))


def _read_error(blob: Blob | None) -> DownloadError | None:
    if blob is None or blob.codec != Codec.JSON:
        return None
    try:
        return msgspec.json.decode(blob.data, type=DownloadError)
    except msgspec.DecodeError:
        return None
