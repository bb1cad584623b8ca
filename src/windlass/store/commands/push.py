"""Push commands: dispatch, pushed, redirect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from windlass.core.errors import Refusal
from windlass.core.operations import Dispatch, PushReport, Redirect, Taken, WorkerInfo
from windlass.store.records.record import unpack
from windlass.store.waiting.wakeups import Place

from .command import Argument, BatchCommand, Command, decode_text, parse_reply, reply_parser
from .take import UNREGISTERED, WaitRegistration, seconds_until
from .workers import read_info

PushedState: TypeAlias = Literal["running", "queued", "scheduled", "cancelled"]


class DispatchResult(NamedTuple):
    """Jobs of one dispatch, and the queues and filters for which the engine sends a wakeup when there is more."""

    now_ms: int
    taken: Taken
    workers: dict[bytes, WorkerInfo]
    places: frozenset[Place]
    fixed_leases_ms: dict[bytes, int]

    @property
    def due_in_s(self) -> float | None:
        return seconds_until(self.taken.next_due_at_ms, self.now_ms)

    @property
    def dispatch(self) -> Dispatch:
        return Dispatch(self.taken.jobs, self.workers, self.taken.next_due_at_ms, self.fixed_leases_ms)


def _pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def read_dispatch_result(reply: Any) -> DispatchResult:
    now_ms, next_due, entries, descriptions, places, lengths_ms = reply
    jobs = [unpack(entry) for entry in entries]
    return DispatchResult(
        now_ms,
        Taken(jobs, next_due or None),
        {worker: read_info(description) for worker, description in _pairs(descriptions)},
        frozenset((queue.decode(), wanted.decode()) for queue, wanted in _pairs(places)),
        {job.id: length_ms for job, length_ms in zip(jobs, lengths_ms, strict=False) if length_ms},
    )


def dispatch(
    most: int, accept_ms: int, partition: int, registration: WaitRegistration = UNREGISTERED
) -> Command[DispatchResult | Refusal]:
    args: list[Argument] = [
        most,
        accept_ms,
        registration.wakeup_list,
        registration.for_ms,
        int(registration.others_wait),
    ]
    return Command("dispatch", args, lambda reply: parse_reply(reply, read_dispatch_result), partition=partition)


def pushed(reports: Sequence[PushReport], partition: int) -> BatchCommand[PushedState | Refusal]:
    items = [(report.id, report.token, report.worker, report.outcome, _duration_ms(report)) for report in reports]
    read = reply_parser(lambda reply: cast(PushedState, decode_text(reply)))
    return BatchCommand("pushed", (), items, read, partition=partition)


def _duration_ms(report: PushReport) -> int:
    return report.pause_ms if report.outcome == "busy" else report.lease_ms


def redirect(request: Redirect, partition: int) -> Command[Dispatch | Literal["later", "no_worker"] | Refusal]:
    args: list[Argument] = [request.id, request.token, request.accept_ms, *request.refused_by]
    return Command("redirect", args, lambda reply: parse_reply(reply, _redirected), partition=partition)


def _redirected(reply: Any) -> Dispatch | Literal["later", "no_worker"]:
    if isinstance(reply, bytes):
        return "later" if reply == b"later" else "no_worker"
    _, entry, worker, description, length_ms = reply
    job = unpack(entry)
    return Dispatch([job], {worker: read_info(description)}, None, {job.id: length_ms} if length_ms else {})
