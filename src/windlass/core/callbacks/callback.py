"""A notice owed when a job ends, as those who deliver it and those who look at it see it. `Callback`, what a producer
asks for, is part of a job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from windlass.core.errors import BadInput
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Attempt, Blob, Callback, Job

GIVEN_UP_KEPT_MS = 14 * 86_400_000
GIVEN_UP_MOST = 10_000  # per partition; the oldest go first
CALLBACKS_MAX = 100  # in one call: each may carry 64 KiB of payload and of result


def destination_digest(callback: Callback) -> str:
    """Of those to be delivered to one receiver: 16 hexadecimal digits. By its host and port, since they are one
    program as a rule, whatever the path; all of the same mark share its room."""
    target = callback.url or callback.destination
    try:
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") and parts.hostname:
            target = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    except ValueError:
        pass
    return hashlib.blake2b(f"{callback.type or 'http'}\0{target}".encode(), digest_size=8).hexdigest()


class DeliveryCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """How many callbacks somebody who delivers them can take on now."""

    most: int
    per_destination: int = CALLBACKS_MAX  # of one destination
    by_destination: Mapping[str, int] = {}  # destination mark -> of this one


class PendingCallback(msgspec.Struct, frozen=True, kw_only=True):
    """One callback of one end of a job. It survives the job."""

    id: bytes  # the same in every attempt: a receiver can tell a repetition by it
    job: Job  # as it ended; a payload beyond 64 KiB is cut
    callback: Callback
    result: Blob | None  # as reported, also when the job does not keep it
    is_result_too_big: bool  # there was one beyond 64 KiB
    last_attempt: Attempt | None  # of a job that did not end well
    attempt: int  # deliveries begun so far, this one included
    error: str  # why the last delivery failed
    token: int = 0  # of the lease; 0 for those who only look
    destination: str = ""  # its mark, as the engine has it
    due_at_ms: int | None = None  # of one that is looked at
    removed_at_ms: int | None = None  # of one that was given up

    @property
    def key(self) -> str:
        """The id as people write it."""
        return f"{format_id(self.id[:16])}-{int.from_bytes(self.id[16:], 'big')}"


def parse_pending_callback_id(text: str) -> bytes:
    """The id from the form that `Debt.key` gives. BadInput: it is none."""
    job, _, number = text.rpartition("-")
    if not (number.isascii() and number.isdigit() and len(number) < 16 and int(number) < 2**48):
        raise BadInput(f"{text!r} is not the id of a callback.")
    return parse_id(job) + int(number).to_bytes(6, "big")


class PendingCallbacks(msgspec.Struct, frozen=True):
    """What was leased to be delivered, and when the next is due."""

    callbacks: list[PendingCallback]
    next_due_at_ms: int | None


class PendingCallbackPage(msgspec.Struct, frozen=True):
    """`cursor` is empty at the end."""

    callbacks: list[PendingCallback]
    cursor: str


class JobCallbacks(msgspec.Struct, frozen=True):
    """Of one job: what is owed (`due_at_ms`) and what was given up (`removed_at_ms`). What was delivered is gone."""

    callbacks: list[PendingCallback]
    is_all: bool  # False: there are so many callbacks of all jobs that not all were looked at


class LeasedCallback(msgspec.Struct, frozen=True):
    """A leased debt as its holder knows it."""

    id: bytes
    token: int


class FailedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that failed: when to try again, or that nobody will."""

    id: bytes
    token: int
    delay_ms: int = 0
    error: str = ""
    give_up: bool = False
    is_unspent: bool = False  # the attempt was not made, and does not count
