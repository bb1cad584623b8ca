"""What is said of a download that has ended: stored as the result of its job, sent as its callback. Pure."""

from __future__ import annotations

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.job import Blob, Codec
from windlass.core.states import State

from .order import BadOrder, Order, path_of, read_order

_UNTOLD = {
    "cancelled": "The download was cancelled.",
    "lease_expired": "The download was begun several times and never ended.",
    "expired": "The download was not begun in time.",
    "timeout": "The download took longer than its job may.",
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the callback, in the order in which they are sent."""

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


class Error(msgspec.Struct, frozen=True):
    """What is stored with an attempt that came to nothing."""

    message: str = ""
    response_code: int = 0


def success(order: Order, base: str, response_code: int, image_size: str) -> Report:
    return Report(
        success=True,
        extra=order.extra,
        image_size=image_size,
        resource_url=order.url,
        download_url=f"{base.rstrip('/')}/{path_of(order.id)}",
        job_id=order.id,
        response_code=response_code,
    )


def callback_body(debt: PendingCallback, base: str) -> bytes:
    """The same in every delivery of one debt. `base` only counts where the report itself was too large to be kept."""
    finished = debt.job.state == State.FINISHED
    if finished and debt.result is not None and debt.result.codec == Codec.JSON:
        return debt.result.data
    order = _order_of(debt)
    if finished:
        return msgspec.json.encode(success(order, base, 200, ""))
    error = _error_of(debt)
    return msgspec.json.encode(
        Report(
            success=False,
            error=error.message,
            extra=order.extra,
            resource_url=order.url,
            job_id=order.id,
            response_code=error.response_code,
        )
    )


def _order_of(debt: PendingCallback) -> Order:
    """Of a payload that was cut, or is none, the id is left."""
    try:
        return read_order(debt.job)
    except BadOrder:
        return Order(url="", id=debt.job.unique or debt.job.key)


def _error_of(debt: PendingCallback) -> Error:
    last = debt.last_attempt
    if debt.job.state == State.CANCELLED or last is None:
        return Error(_UNTOLD["cancelled"] if debt.job.state == State.CANCELLED else "")
    return _read_error(last.error) or Error(_UNTOLD.get(last.reason, last.reason))


def _read_error(blob: Blob | None) -> Error | None:
    if blob is None or blob.codec != Codec.JSON:
        return None
    try:
        return msgspec.json.decode(blob.data, type=Error)
    except msgspec.DecodeError:
        return None
