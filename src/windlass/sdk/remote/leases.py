"""Jobs are taken, and those who hold them report, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

from .facet import RemoteAsking
from .request import post
from .translation import job_of, outcomes_of, value_fields


class RemoteWorking(RemoteAsking):
    """An answer that is lost on its way takes its leases with it until they run out: what takes is not repeated."""

    def take(self, request: Take, *, receive: Receive | None = None) -> Operation[Taken]:
        """A server hands nothing over."""
        super().take(request)
        body = _take_shape(request)
        asked = post("/take", TakenShape, body, wait_ms=body.wait_ms, is_repeatable=False)
        return self._one(asked, lambda found: Taken([job_of(one) for one in found.jobs], found.next_due_at_ms))

    def finish_and_take(
        self, finishes: Sequence[Finish], failures: Sequence[Fail], request: Take
    ) -> Operation[FinishedAndTaken]:
        super().finish_and_take(finishes, failures, request)
        body = FinishAndTakeShape(
            finishes=tuple(map(_finish_item, finishes)),
            failures=tuple(map(_fail_item, failures)),
            take=_take_shape(request, wait_ms=0),
        )
        return self._one(post("/exchange", FinishedAndTakenShape, body, is_repeatable=False), _exchanged)

    def accept(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[int | None]:
        super().accept(requests, lease_ms=lease_ms)
        return self._about("accept", _leases(requests, lease_ms), AcceptedShape, lambda one: one.deadline_at_ms)

    def extend(self, requests: Sequence[LeaseRef], *, lease_ms: int = 0) -> BatchOperation[Extended]:
        super().extend(requests, lease_ms=lease_ms)
        return self._about(
            "extend",
            _leases(requests, lease_ms),
            ExtendedShape,
            lambda one: Extended(one.deadline_at_ms, one.is_cancel_requested),
        )

    def update(self, requests: Sequence[Update]) -> BatchOperation[Updated]:
        super().update(requests)
        items = [
            ProgressItem(
                id=format_id(one.id),
                token=one.token,
                progress=one.progress,
                note=one.note,
                **value_fields("payload", one.payload),
            )
            for one in requests
        ]
        return self._about("progress", items, UpdatedShape, lambda one: Updated(one.revision, one.is_cancel_requested))

    def emit(self, requests: Sequence[Emit]) -> BatchOperation[None]:
        super().emit(requests)
        items = [
            EmitItem(id=format_id(one.id), token=one.token, **value_fields("value", one.value)) for one in requests
        ]
        return self._about("emit", items, RecordedShape, _nothing, is_repeatable=False)

    def log(self, requests: Sequence[Log]) -> BatchOperation[None]:
        super().log(requests)
        items = [
            LogItem(
                id=format_id(one.id),
                token=one.token,
                lines=tuple(LineShape(at_ms=line.at_ms, level=line.level, text=line.text) for line in one.lines),
            )
            for one in requests
        ]
        return self._about("log", items, RecordedShape, _nothing, is_repeatable=False)

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        """Sent again after a lost answer, it is refused as already ended: then the first one went through."""
        super().finish(requests)
        return self._about("finish", [_finish_item(one) for one in requests], FinishedShape, _finished)

    def fail(self, requests: Sequence[Fail]) -> BatchOperation[FailOutcome]:
        super().fail(requests)
        return self._about("fail", [_fail_item(one) for one in requests], FailedShape, lambda one: one.outcome)

    def release(self, requests: Sequence[LeaseRef]) -> BatchOperation[str]:
        super().release(requests)
        items = [LeaseRefItem(id=format_id(one.id), token=one.token) for one in requests]
        return self._about("release", items, ReleasedShape, lambda one: one.state)


def _nothing(_said: RecordedShape) -> None:
    return None


def _leases(requests: Sequence[LeaseRef], lease_ms: int) -> list[LeaseItem]:
    return [LeaseItem(id=format_id(one.id), token=one.token, lease_ms=lease_ms) for one in requests]


def _take_shape(request: Take, wait_ms: int | None = None) -> TakeShape:
    wanted = request.wants
    return TakeShape(
        queues=request.queues,
        most=request.most,
        wait_ms=min(request.wait_ms, WAIT_MAX_MS) if wait_ms is None else wait_ms,
        lease_ms=request.lease_ms,
        accept_ms=request.accept_ms,
        weights=request.weights,
        only=wanted.only,
        all_but=wanted.all_but,
        glob=wanted.glob,
        priority=wanted.priority,
        hidden=wanted.hidden,
        worker=format_id(request.worker) if request.worker else None,
    )


def _finish_item(one: Finish) -> FinishItem:
    return FinishItem(
        id=format_id(one.id), token=one.token, ignore_repeat=one.ignore_repeat, **value_fields("result", one.result)
    )


def _fail_item(one: Fail) -> FailItem:
    return FailItem(
        id=format_id(one.id),
        token=one.token,
        then=one.then,
        delay_ms=one.delay_ms,
        reason=one.reason,
        **value_fields("error", one.error),
    )


def _finished(shape: FinishedShape) -> FinishOutcome:
    return None if shape.outcome == "finished" else shape.outcome


def _exchanged(found: FinishedAndTakenShape) -> FinishedAndTaken:
    finished: list[Any] = outcomes_of(found.finished, _finished)
    failed: list[Any] = outcomes_of(found.failed, lambda one: one.outcome)
    return FinishedAndTaken(finished, failed, Taken([job_of(one) for one in found.jobs], found.next_due_at_ms))
