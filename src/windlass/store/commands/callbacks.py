"""Callbacks owed: take_callbacks, settle_callbacks, retry_callbacks, callbacks, redeliver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
from windlass.store.records.record import unpack, unpack_attempt, unpack_blob

from .command import BatchCommand, Command, decode_text, ignore_reply, reply_parser

_NO_CALLBACK = Callback()


class TakenCallbacks(NamedTuple):
    now_ms: int
    next_at_ms: int | None
    callbacks: list[PendingCallback]


def _read_callback(fields: Sequence[bytes], due_at_ms: int | None = None, removed_at_ms: int | None = None) -> PendingCallback:
    debt, entry, is_whole, result, is_too_big, attempt, tries, error, token, to = fields
    job = unpack(entry, is_whole=is_whole == b"1")
    is_held = due_at_ms is None and removed_at_ms is None
    return PendingCallback(
        id=debt,
        job=job,
        callback=job.callback or _NO_CALLBACK,
        result=unpack_blob(result),
        is_result_too_big=is_too_big == b"1",
        last_attempt=unpack_attempt(attempt) if attempt else None,
        attempt=int(tries),
        error=error.decode(errors="replace"),
        token=int(token) if is_held else 0,
        destination=to.decode(),
        due_at_ms=due_at_ms,
        removed_at_ms=removed_at_ms,
    )


class CallbackRegistration(NamedTuple):
    """What is registered while none is due; nothing when there is no bell."""

    bell: str = ""
    for_ms: int = 0
    others_wait: bool = False  # behind the same bell


def take_callbacks(room: DeliveryCapacity, lease_ms: int, waiting: CallbackRegistration, partition: int) -> Command[TakenCallbacks]:
    def read(reply: Any) -> TakenCallbacks:
        return TakenCallbacks(reply[0], reply[1] or None, [_read_callback(fields) for fields in reply[2]])

    less = [part for pair in room.by_destination.items() for part in pair]
    return Command(
        "take_callbacks",
        [room.most, lease_ms, waiting.bell, waiting.for_ms, int(waiting.others_wait), room.per_destination, *less],
        read,
        partition=partition,
    )


def settle_callbacks(requests: Sequence[LeasedCallback], partition: int) -> BatchCommand[Refusal | None]:
    items = [(one.id, one.token) for one in requests]
    return BatchCommand("settle_callbacks", (), items, reply_parser(ignore_reply), partition=partition)


def retry_callbacks(requests: Sequence[FailedDelivery], partition: int) -> BatchCommand[str | Refusal]:
    items = [(one.id, one.token, one.delay_ms, _next_status(one), one.error.encode(errors="replace")) for one in requests]
    head = (GIVEN_UP_KEPT_MS, GIVEN_UP_MOST)
    return BatchCommand("retry_callbacks", head, items, reply_parser(decode_text), partition=partition)


def _next_status(one: FailedDelivery) -> str:
    return "given_up" if one.give_up else "unspent" if one.is_unspent else "again"


def redeliver(ids: Sequence[bytes], partition: int) -> BatchCommand[str | Refusal]:
    return BatchCommand("redeliver", (), [(debt,) for debt in ids], reply_parser(decode_text), partition=partition)


def callbacks(given_up: bool, start: int, most: int, partition: int) -> Command[list[PendingCallback]]:
    def read(reply: Any) -> list[PendingCallback]:
        if given_up:
            return [_read_callback(fields, removed_at_ms=at_ms) for at_ms, fields in reply]
        return [_read_callback(fields, due_at_ms=at_ms) for at_ms, fields in reply]

    return Command("callbacks", ["given_up" if given_up else "owed", start, most], read, partition=partition)


def job_callbacks(job_id: bytes, looked_at: int, partition: int) -> Command[JobCallbacks]:
    def read(reply: Any) -> JobCallbacks:
        is_all, owed, given_up = reply
        debts = [_read_callback(fields, due_at_ms=at_ms) for at_ms, fields in owed]
        debts += [_read_callback(fields, removed_at_ms=at_ms) for at_ms, fields in given_up]
        return JobCallbacks(sorted({debt.id: debt for debt in debts}.values(), key=lambda debt: debt.id), bool(is_all))

    return Command("job_callbacks", [job_id, looked_at], read, partition=partition)
