"""Commands for pending callbacks: take_callbacks, settle_callbacks, retry_callbacks, callbacks, redeliver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.core.alerts.targets import hide_secret, is_message
from windlass.core.callbacks.callback import (
    GIVEN_UP_KEPT_MS,
    GIVEN_UP_MOST,
    DeliveryCapacity,
    FailedDelivery,
    JobCallbacks,
    LeasedCallback,
    PendingCallback,
)
from windlass.core.errors import Refusal
from windlass.core.job import Callback
from windlass.store.records.attempt import unpack_attempt, unpack_blob
from windlass.store.records.record import unpack

from .command import BatchCommand, Command, decode_text, ignore_reply, reply_parser
from .take import WaitRegistration, seconds_until

_NO_CALLBACK = Callback()


class TakenCallbacks(NamedTuple):
    now_ms: int
    next_at_ms: int | None
    callbacks: list[PendingCallback]

    @property
    def due_in_s(self) -> float | None:
        return seconds_until(self.next_at_ms, self.now_ms)


def _read_callback(
    fields: Sequence[bytes], due_at_ms: int | None = None, removed_at_ms: int | None = None
) -> PendingCallback:
    callback_id, entry, is_whole, result, is_too_big, attempt, tries, error, token, to = fields
    job = unpack(entry, is_whole=is_whole == b"1")
    is_held = due_at_ms is None and removed_at_ms is None
    callback = job.callback or _NO_CALLBACK
    if not is_held:
        callback = _visible_callback(callback)
    return PendingCallback(
        id=callback_id,
        job=job,
        callback=callback,
        result=unpack_blob(result),
        is_result_too_big=is_too_big == b"1",
        last_attempt=unpack_attempt(attempt) if attempt else None,
        attempt=int(tries),
        error=error.decode(errors="replace"),
        token=int(token) if is_held else 0,
        is_leased=due_at_ms is not None and bool(token),
        destination=to.decode(),
        due_at_ms=due_at_ms,
        removed_at_ms=removed_at_ms,
    )


def _visible_callback(callback: Callback) -> Callback:
    """Return a callback for listings. Readers of these must not learn the secret part of an alert's target."""
    if not is_message(callback):
        return callback
    return replace(callback, destination=hide_secret(callback.destination))


def take_callbacks(
    capacity: DeliveryCapacity, lease_ms: int, registration: WaitRegistration, partition: int
) -> Command[TakenCallbacks]:
    def read(reply: Any) -> TakenCallbacks:
        return TakenCallbacks(reply[0], reply[1] or None, [_read_callback(fields) for fields in reply[2]])

    less = [part for pair in capacity.by_destination.items() for part in pair]
    return Command(
        "take_callbacks",
        [
            capacity.most,
            lease_ms,
            registration.wakeup_list,
            registration.for_ms,
            int(registration.others_wait),
            capacity.per_destination,
            *less,
        ],
        read,
        partition=partition,
    )


def settle_callbacks(requests: Sequence[LeasedCallback], partition: int) -> BatchCommand[Refusal | None]:
    items = [(delivery.id, delivery.token) for delivery in requests]
    return BatchCommand("settle_callbacks", (), items, reply_parser(ignore_reply), partition=partition)


def retry_callbacks(requests: Sequence[FailedDelivery], partition: int) -> BatchCommand[str | Refusal]:
    items = [
        (
            delivery.id,
            delivery.token,
            delivery.delay_ms,
            _next_status(delivery),
            delivery.error.encode(errors="replace"),
        )
        for delivery in requests
    ]
    head = (GIVEN_UP_KEPT_MS, GIVEN_UP_MOST)
    return BatchCommand("retry_callbacks", head, items, reply_parser(decode_text), partition=partition)


def _next_status(delivery: FailedDelivery) -> str:
    return "given_up" if delivery.give_up else "unspent" if delivery.is_unspent else "again"


def redeliver(ids: Sequence[bytes], partition: int) -> BatchCommand[str | Refusal]:
    return BatchCommand(
        "redeliver", (), [(callback_id,) for callback_id in ids], reply_parser(decode_text), partition=partition
    )


def callbacks(given_up: bool, start: int, most: int, partition: int) -> Command[list[PendingCallback]]:
    def read(reply: Any) -> list[PendingCallback]:
        if given_up:
            return [_read_callback(fields, removed_at_ms=at_ms) for at_ms, fields in reply]
        return [_read_callback(fields, due_at_ms=at_ms) for at_ms, fields in reply]

    return Command("callbacks", ["given_up" if given_up else "owed", start, most], read, partition=partition)


def job_callbacks(job_id: bytes, looked_at: int, partition: int) -> Command[JobCallbacks]:
    def read(reply: Any) -> JobCallbacks:
        is_all, pending, given_up = reply
        found = [_read_callback(fields, due_at_ms=at_ms) for at_ms, fields in pending]
        found += [_read_callback(fields, removed_at_ms=at_ms) for at_ms, fields in given_up]
        by_id = {callback.id: callback for callback in found}
        return JobCallbacks(sorted(by_id.values(), key=lambda callback: callback.id), bool(is_all))

    return Command("job_callbacks", [job_id, looked_at], read, partition=partition)
