"""Steps, suspensions, signals and rewinds over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence

from windlass.core.access.signal_links import EXPIRES_IN_MS, SignedLink
from windlass.core.durable import (
    DurableState,
    OpenWaits,
    ReceiveSignal,
    Rewind,
    Signal,
    SignalOutcome,
    Step,
    StepKind,
    StepStatus,
    StoreStep,
    Suspend,
    SuspendOutcome,
    UnreadSignal,
    Wait,
)
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NULL_BLOB
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import post
from windlass.sdk.remote.store import not_offered
from windlass.sdk.remote.translation import blob_of, copy_fields, value_fields
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.durable.signals import (
    RewindItem,
    RewoundShape,
    SignalItem,
    SignalledShape,
    SignalUrlShape,
    SignedUrlShape,
)
from windlass.wire.durable.steps import (
    DurableStateShape,
    OpenWaitsShape,
    ReceivedSignalShape,
    ReceiveSignalItem,
    StepShape,
    StoreStepItem,
    SuspendedShape,
    SuspendItem,
    UnreadSignalShape,
    WaitShape,
)
from windlass.wire.jobs import WantedItem
from windlass.wire.leases import RecordedShape


class RemoteDurableOperations(RemoteFacet):
    def store_steps(self, requests: Sequence[StoreStep]) -> BatchOperation[None]:
        super().store_steps(requests)
        items = [_store_step_item(request) for request in requests]
        return self._batch("steps", items, RecordedShape, lambda _: None)

    def suspend(self, requests: Sequence[Suspend]) -> BatchOperation[SuspendOutcome]:
        """Suspend jobs. A request that is repeated after a lost answer is refused as a stale lease if the first one
        succeeded."""
        super().suspend(requests)
        items = [
            SuspendItem(id=format_id(request.id), token=request.token, waits=tuple(map(_wait_shape, request.waits)))
            for request in requests
        ]
        return self._batch("suspend", items, SuspendedShape, lambda item: item.outcome)

    def receive_signals(self, requests: Sequence[ReceiveSignal]) -> BatchOperation[Step | None]:
        super().receive_signals(requests)
        items = [
            ReceiveSignalItem(id=format_id(request.id), token=request.token, name=request.name, signal=request.signal)
            for request in requests
        ]
        return self._batch("receive-signal", items, ReceivedSignalShape, _received_step)

    def signal(self, requests: Sequence[Signal]) -> BatchOperation[SignalOutcome]:
        """Send signals. Each has a request id, so a request that is repeated after a lost answer has no effect."""
        super().signal(requests)
        if any(request.is_one_time or request.occurrence_at_ms is not None for request in requests):
            raise not_offered("A signal for one occurrence")
        items = [
            SignalItem(
                id=format_id(request.id),
                name=request.name,
                request_id=format_id(request.request_id or os.urandom(16)),
                **value_fields("value", request.value),
            )
            for request in requests
        ]
        return self._batch("signals", items, SignalledShape, lambda item: item.outcome)

    def durable_states(self, ids: Sequence[bytes]) -> BatchOperation[DurableState]:
        super().durable_states(ids)
        items = [WantedItem(id=format_id(job_id)) for job_id in ids]
        return self._batch("get-steps", items, DurableStateShape, _durable_state_of)

    def open_waits(self, ids: Sequence[bytes]) -> BatchOperation[OpenWaits]:
        super().open_waits(ids)
        items = [WantedItem(id=format_id(job_id)) for job_id in ids]
        return self._batch("get-waits", items, OpenWaitsShape, _open_waits_of)

    def rewind(self, requests: Sequence[Rewind]) -> BatchOperation[int]:
        super().rewind(requests)
        items = [RewindItem(id=format_id(request.id), step=request.step) for request in requests]
        return self._batch("rewind", items, RewoundShape, lambda item: item.dropped, is_repeatable=False)

    def signal_link(self, job_id: bytes, signal: str, *, expires_in_ms: int = EXPIRES_IN_MS) -> Operation[SignedLink]:
        super().signal_link(job_id, signal, expires_in_ms=expires_in_ms)
        body = SignalUrlShape(signal=signal, expires_in_ms=expires_in_ms)
        request = post(f"/jobs/{format_id(job_id)}/signal-url", SignedUrlShape, body)
        return self._single(request, lambda reply: copy_fields(reply, SignedLink))


def _store_step_item(request: StoreStep) -> StoreStepItem:
    return StoreStepItem(
        id=format_id(request.id),
        token=request.token,
        name=request.name,
        kind=request.kind.label,  # type: ignore[arg-type]
        status=request.status.label,  # type: ignore[arg-type]
        tries=request.tries,
        ran_ms=request.ran_ms,
        lease_ms=request.lease_ms,
        **value_fields("value", request.value),
    )


def _wait_shape(wait: Wait) -> WaitShape:
    return WaitShape(
        name=wait.name,
        kind=wait.kind,
        for_ms=wait.for_ms,
        signal=wait.signal,
        children=tuple(map(format_id, wait.children)),
        needs_all=wait.needs_all,
        tries=wait.tries,
        **value_fields("schema", wait.schema),
        **value_fields("error", wait.error),
    )


def _step_of(shape: StepShape) -> Step:
    return Step(
        name=shape.name,
        kind=StepKind[shape.kind.upper()],
        status=StepStatus[shape.status.upper()],
        number=shape.number,
        tries=shape.tries,
        begun_at_ms=shape.begun_at_ms,
        ended_at_ms=shape.ended_at_ms,
        wake_at_ms=shape.wake_at_ms,
        signal=shape.signal,
        children=tuple(map(parse_id, shape.children)),
        value=blob_of(shape.value, shape.value_base64, shape.value_codec),
    )


def _received_step(shape: ReceivedSignalShape) -> Step | None:
    return None if shape.step is None else _step_of(shape.step)


def _unread_signal_of(shape: UnreadSignalShape) -> UnreadSignal:
    value = blob_of(shape.value, shape.value_base64, shape.value_codec) or NULL_BLOB
    return UnreadSignal(shape.name, shape.at_ms, value)


def _open_waits_of(shape: OpenWaitsShape) -> OpenWaits:
    return OpenWaits(
        now_ms=shape.now_ms, suspended_at_ms=shape.suspended_at_ms, steps=tuple(map(_step_of, shape.steps))
    )


def _durable_state_of(shape: DurableStateShape) -> DurableState:
    return DurableState(
        now_ms=shape.now_ms,
        steps=tuple(map(_step_of, shape.steps)),
        signals=tuple(map(_unread_signal_of, shape.signals)),
        suspensions=shape.suspensions,
        suspended_at_ms=shape.suspended_at_ms,
        waits=tuple(shape.waits),
        round=shape.round,
        has_yielded=shape.has_yielded,
        stream_writes=shape.stream_writes,
        stream_length=shape.stream_length,
        bytes=shape.bytes,
    )
