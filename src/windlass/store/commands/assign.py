"""Commands for workers that report by messages: report_worker, assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass.core.errors import Refusal
from windlass.core.operations import LeaseRef, WorkerReport, WorkerReportOutcome
from windlass.store.records.attempt import pack_blob

from .command import Argument, BatchCommand, Command, decode_text, parse_reply, reply_parser
from .push import DispatchResult, read_dispatch_result
from .take import UNREGISTERED, WaitRegistration

_encode = msgspec.msgpack.Encoder().encode


def _item(report: WorkerReport, kind: str) -> tuple[Argument, ...]:
    return (
        report.queue,
        report.worker,
        _encode(report.info),
        kind,
        report.unique,
        report.id,
        report.age_ms,
        report.idle_ms,
        round(report.progress * 1_000_000),
        pack_blob(report.result),
    )


def _read_report(reply: Any) -> WorkerReportOutcome | LeaseRef:
    """Read a reply. A LeaseRef means that the run must be ended by another command: it failed, or the job repeats."""
    return LeaseRef(*reply) if isinstance(reply, list) else cast(WorkerReportOutcome, decode_text(reply))


def report_worker(reports: Sequence[WorkerReport], silent_ms: int, partition: int) -> BatchCommand[Any]:
    items = [_item(report, report.kind) for report in reports]
    return BatchCommand("report_worker", (silent_ms,), items, reply_parser(_read_report), partition=partition)


def report_presence(reports: Sequence[WorkerReport], silent_ms: int, partition: int) -> BatchCommand[Any]:
    """Report only that these workers are alive."""
    items = [_item(report, "heard") for report in reports]
    return BatchCommand("report_worker", (silent_ms,), items, reply_parser(_read_report), partition=partition)


def assign(
    queues: Sequence[str],
    most: int,
    accept_ms: int,
    spends_attempt: bool,
    partition: int,
    registration: WaitRegistration = UNREGISTERED,
) -> Command[DispatchResult | Refusal]:
    args: list[Argument] = [
        most,
        accept_ms,
        int(spends_attempt),
        registration.wakeup_list,
        registration.for_ms,
        *queues,
    ]
    return Command("assign", args, lambda reply: parse_reply(reply, read_dispatch_result), partition=partition)
