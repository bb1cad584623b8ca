"""Pending callbacks: leasing, delivery and inspection. `Callback`, the producer's request, is in `core/job.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from windlass.core.errors import BadInput
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Attempt, Blob, Callback, Job

GIVEN_UP_KEPT_MS = 14 * 86_400_000
GIVEN_UP_MOST = 10_000  # per partition; the oldest are removed first
CALLBACKS_MAX = 100  # per call: each may carry 64 KiB of payload and of result


def destination_digest(callback: Callback) -> str:
    """Return a digest of the receiver of a callback: 16 hexadecimal digits.

    URLs count as the same receiver if host and port are equal, because they usually reach one program. Callbacks with
    the same digest share the delivery capacity of that receiver.
    """
    target = callback.url or callback.destination
    try:
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") and parts.hostname:
            target = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    except ValueError:
        pass
    return hashlib.blake2b(f"{callback.type or 'http'}\0{target}".encode(), digest_size=8).hexdigest()


class DeliveryCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Number of callbacks that a server can deliver now."""

    most: int
    per_destination: int = CALLBACKS_MAX
    by_destination: Mapping[str, int] = {}  # destination digest -> number, where it differs from per_destination


class PendingCallback(msgspec.Struct, frozen=True, kw_only=True):
    """Callback for one end of a job. It outlives the job."""

    id: bytes  # the same in every attempt, so that a receiver can recognise a repetition
    job: Job  # as it ended; a payload beyond 64 KiB is cut
    callback: Callback
    result: Blob | None  # as reported, also when the job does not keep it
    is_result_too_big: bool  # the result is omitted: it is larger than 64 KiB
    last_attempt: Attempt | None  # of a job that did not succeed
    attempt: int  # deliveries started so far, including this one
    error: str  # why the last delivery failed
    token: int = 0  # of the lease; 0 in listings
    is_leased: bool = False  # in listings: a process delivers it, unless its lease has expired (`due_at_ms`)
    destination: str = ""  # destination digest, as stored in the engine
    due_at_ms: int | None = None  # in listings of pending callbacks
    removed_at_ms: int | None = None  # in listings of given-up callbacks

    @property
    def key(self) -> str:
        """Text form of the id."""
        return format_pending_callback_id(self.id)


def format_pending_callback_id(callback_id: bytes) -> str:
    return f"{format_id(callback_id[:16])}-{int.from_bytes(callback_id[16:], 'big')}"


def parse_pending_callback_id(text: str) -> bytes:
    """Return the id from the text form of `PendingCallback.key`. Raise BadInput for any other text."""
    job, _, number = text.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) < 16 and int(number) < 2**48):
        raise BadInput(f"{text!r} is not the id of a callback.")
    return parse_id(job) + int(number).to_bytes(6, "big")


class PendingCallbacks(msgspec.Struct, frozen=True):
    """Callbacks leased for delivery, and the time when the next callback is due."""

    callbacks: list[PendingCallback]
    next_due_at_ms: int | None


class PendingCallbackPage(msgspec.Struct, frozen=True):
    """A page of callbacks. `cursor` is empty on the last page."""

    callbacks: list[PendingCallback]
    cursor: str


class JobCallbacks(msgspec.Struct, frozen=True):
    """Callbacks of one job: pending (`due_at_ms`) and given up (`removed_at_ms`). Delivered callbacks are not kept."""

    callbacks: list[PendingCallback]
    is_all: bool  # False: too many callbacks of all jobs exist to check each


class LeasedCallback(msgspec.Struct, frozen=True):
    """Reference to a leased callback: id and token."""

    id: bytes
    token: int


class FailedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a failed delivery, with the delay until the next attempt or the decision to give up."""

    id: bytes
    token: int
    delay_ms: int = 0
    error: str = ""
    give_up: bool = False
    is_unspent: bool = False  # no attempt was made, so none is counted
