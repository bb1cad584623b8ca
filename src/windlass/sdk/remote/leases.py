"""Lease operations over HTTP: takes and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from windlass.core.event import Emit
from windlass.core.ids import format_id
from windlass.core.log import Log
from windlass.core.operations import (
    Extended,
    Fail,
    FailOutcome,
    Finish,
    FinishedAndTaken,
    FinishOutcome,
    LeaseRef,
    Take,
    Taken,
    Update,
    Updated,
)
from windlass.store.operation import BatchOperation, Operation
from windlass.store.waiting.take import Receive
from windlass.wire.fields import WAIT_MAX_MS
from windlass.wire.leases import (
    AcceptedShape,
    EmitItem,
    ExtendedShape,
    FailedShape,
    FailItem,
    FinishAndTakeShape,
    FinishedAndTakenShape,
    FinishedShape,
    FinishItem,
    LeaseItem,
    LeaseRefItem,
    LineShape,
    LogItem,
    ProgressItem,
    RecordedShape,
    ReleasedShape,
    TakenShape,
    TakeShape,
    UpdatedShape,
)

from .facet import RemoteFacet
from .request import post
from .translation import job_of, read_items, value_fields


class RemoteLeaseOperations(RemoteFacet):
    """Lease operations. A take is not repeated after a lost answer; the leases in that answer expire."""

    def take(self, request: Take, *, receive: Receive | None = None) -> Operation[Taken]:
        """Take jobs. `receive` is not used, as a server does not hand jobs over with wakeups."""
        super().take(request)
        body = _take_shape(request)
        sent = post("/take", TakenShape, body, wait_ms=body.wait_ms, is_repeatable=False)
        return self._single(sent, lambda reply: Taken([job_of(shape) for shape in reply.jobs], reply.next_due_at_ms))

    def finish_and_take(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Operation[FinishedAndTaken]:
        super().finish_and_take(finishes, failures, request)
        body = FinishAndTakeShape(
            finishes=tuple(map(_finish_item, finishes)),
            failures=tuple(map(_fail_item, failures)),
            take=_take_shape(request, wait_ms=0),
        )
        counts = len(finishes), len(failures)
        sent = post("/exchange", FinishedAndTakenShape, body, is_repeatable=False)
        return self._single(sent, lambda reply: _finished_and_taken(reply, *counts))

    def accept(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[int | None]:
        super().accept(requests, lease_ms=lease_ms)
        return self._batch("accept", _lease_items(requests, lease_ms), AcceptedShape, lambda item: item.deadline_at_ms)

    def extend(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[Extended]:
        super().extend(requests, lease_ms=lease_ms)
        return self._batch(
            "extend",
            _lease_items(requests, lease_ms),
            ExtendedShape,
            lambda item: Extended(
                item.deadline_at_ms, item.is_cancel_requested, None if item.fixed_for_ms is UNSET else item.fixed_for_ms
            ),
        )

    def update(self, requests: Sequence[Update]) -> BatchOperation[Updated]:
        super().update(requests)
        items = [
            ProgressItem(
                id=format_id(update.id),
                token=update.token,
                progress=update.progress,
                note=update.note,
                **value_fields("payload", update.payload),
            )
            for update in requests
        ]
        return self._batch(
            "progress", items, UpdatedShape, lambda item: Updated(item.revision, item.is_cancel_requested)
        )

    def emit(self, requests: Sequence[Emit]) -> BatchOperation[None]:
        super().emit(requests)
        items = [
            EmitItem(id=format_id(emit.id), token=emit.token, **value_fields("value", emit.value)) for emit in requests
        ]
        return self._batch("emit", items, RecordedShape, _no_value, is_repeatable=False)

    def log(self, requests: Sequence[Log]) -> BatchOperation[None]:
        super().log(requests)
        items = [
            LogItem(
                id=format_id(log.id),
                token=log.token,
                lines=tuple(LineShape(at_ms=line.at_ms, level=line.level, text=line.text) for line in log.lines),
            )
            for log in requests
        ]
        return self._batch("log", items, RecordedShape, _no_value, is_repeatable=False)

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        """Finish jobs. A request that is repeated after a lost answer is refused as already ended if the first one
        succeeded."""
        super().finish(requests)
        return self._batch("finish", [_finish_item(finish) for finish in requests], FinishedShape, _finish_outcome)

    def fail(self, requests: Sequence[Fail]) -> BatchOperation[FailOutcome]:
        super().fail(requests)
        return self._batch("fail", [_fail_item(fail) for fail in requests], FailedShape, lambda item: item.outcome)

    def release(self, requests: Sequence[LeaseRef]) -> BatchOperation[str]:
        super().release(requests)
        items = [LeaseRefItem(id=format_id(lease.id), token=lease.token) for lease in requests]
        return self._batch("release", items, ReleasedShape, lambda item: item.state)


def _no_value(_reply: RecordedShape) -> None:
    return None


def _lease_items(leases: Sequence[LeaseRef], lease_ms: int) -> list[LeaseItem]:
    return [LeaseItem(id=format_id(lease.id), token=lease.token, lease_ms=lease_ms) for lease in leases]


def _take_shape(request: Take, wait_ms: int | None = None) -> TakeShape:
    wants = request.wants
    return TakeShape(
        queues=request.queues,
        most=request.most,
        wait_ms=min(request.wait_ms, WAIT_MAX_MS) if wait_ms is None else wait_ms,
        lease_ms=request.lease_ms,
        accept_ms=request.accept_ms,
        weights=request.weights,
        only=wants.only,
        all_but=wants.all_but,
        glob=wants.glob,
        priority=wants.priority,
        hidden=wants.hidden,
        steps=wants.steps,
        worker=format_id(request.worker) if request.worker else None,
    )


def _finish_item(finish: Finish) -> FinishItem:
    return FinishItem(
        id=format_id(finish.id),
        token=finish.token,
        ignore_repeat=finish.ignore_repeat,
        **value_fields("result", finish.result),
    )


def _fail_item(fail: Fail) -> FailItem:
    return FailItem(
        id=format_id(fail.id),
        token=fail.token,
        then=fail.then,
        delay_ms=fail.delay_ms,
        reason=fail.reason,
        **value_fields("error", fail.error),
    )


def _finish_outcome(shape: FinishedShape) -> FinishOutcome:
    return None if shape.outcome == "finished" else shape.outcome


def _finished_and_taken(reply: FinishedAndTakenShape, finishes: int, fails: int) -> FinishedAndTaken:
    finished: list[Any] = read_items(reply.finished, finishes, _finish_outcome)
    failed: list[Any] = read_items(reply.failed, fails, lambda item: item.outcome)
    return FinishedAndTaken(finished, failed, Taken([job_of(shape) for shape in reply.jobs], reply.next_due_at_ms))
