"""Workers that speak by messages: hear, assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass.core.errors import Refusal
from windlass.core.operations import LeaseRef, WorkerReport, WorkerReportOutcome
from windlass.store.records.record import pack_blob

from .command import Argument, BatchCommand, Command, decode_text, parse_reply, reply_parser
from .push import DispatchResult, read_dispatch_result
from .take import UNREGISTERED, WaitRegistration

_encode = msgspec.msgpack.Encoder().encode


def _item(one: WorkerReport, says: str) -> tuple[Argument, ...]:
    return (
        one.queue,
        one.worker,
        _encode(one.info),
        says,
        one.unique,
        one.id,
        one.age_ms,
        one.idle_ms,
        round(one.progress * 1_000_000),
        pack_blob(one.result),
    )


def _read_report(reply: Any) -> WorkerReportOutcome | LeaseRef:
    """Held: the finished job repeats, and is to be finished with its next run."""
    return LeaseRef(*reply) if isinstance(reply, list) else cast(WorkerReportOutcome, decode_text(reply))


def report_worker(ones: Sequence[WorkerReport], silent_ms: int, partition: int) -> BatchCommand[Any]:
    items = [_item(one, one.kind) for one in ones]
    return BatchCommand("report_worker", (silent_ms,), items, reply_parser(_read_report), partition=partition)


def report_presence(ones: Sequence[WorkerReport], silent_ms: int, partition: int) -> BatchCommand[Any]:
    """Only that these workers are there."""
    items = [_item(one, "heard") for one in ones]
    return BatchCommand("report_worker", (silent_ms,), items, reply_parser(_read_report), partition=partition)


def assign(
    queues: Sequence[str],
    most: int,
    accept_ms: int,
    spends_attempt: bool,
    partition: int,
    registration: WaitRegistration = UNREGISTERED,
) -> Command[DispatchResult | Refusal]:
    args: list[Argument] = [most, accept_ms, int(spends_attempt), registration.bell, registration.for_ms, *queues]
    return Command("assign", args, lambda reply: parse_reply(reply, read_dispatch_result), partition=partition)
