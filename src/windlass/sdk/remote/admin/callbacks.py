"""Operations on pending callbacks over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.callbacks.callback import (
    JobCallbacks,
    PendingCallback,
    PendingCallbackPage,
    format_pending_callback_id,
    parse_pending_callback_id,
)
from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import RequestFlow, get, post
from windlass.sdk.remote.translation import attempt_of, blob_of, callback_of, job_of, read_results
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.callbacks import (
    CallbackItemShape,
    JobCallbacksShape,
    PendingCallbackShape,
    PendingCallbacksShape,
    RedeliveredShape,
)
from windlass.wire.shape import ITEMS_MAX, Items, Results


class RemoteCallbackOperations(RemoteFacet):
    def callbacks(self, *, given_up: bool = False, most: int = 50, cursor: str = "") -> Operation[PendingCallbackPage]:
        super().callbacks(given_up=given_up, most=most, cursor=cursor)
        query = {"given_up": given_up, "most": most, "cursor": cursor or None}
        request = get("/callbacks", PendingCallbacksShape, query=query)
        return self._single(
            request, lambda page: PendingCallbackPage([_pending(shape) for shape in page.callbacks], page.cursor)
        )

    def job_callbacks(self, job_id: bytes) -> Operation[JobCallbacks]:
        super().job_callbacks(job_id)
        request = get(f"/jobs/{format_id(job_id)}/callbacks", JobCallbacksShape)
        return self._single(
            request, lambda reply: JobCallbacks([_pending(shape) for shape in reply.callbacks], reply.is_all)
        )

    def redeliver(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        super().redeliver(ids)
        items = [CallbackItemShape(id=_format(callback_id)) for callback_id in ids]
        return BatchOperation(self.remote, lambda: _redeliver(items))


def _redeliver(items: Sequence[CallbackItemShape]) -> RequestFlow[list[str | Refusal]]:
    found: list[str | Refusal] = []
    for start in range(0, len(items), ITEMS_MAX):
        body = Items(list(items[start : start + ITEMS_MAX]))
        reply = yield post("/callbacks:redeliver", Results[RedeliveredShape], body)
        found += read_results(reply, len(body.items), lambda result: result.status)
    return found


def _format(callback_or_job_id: bytes) -> str:
    is_job = len(callback_or_job_id) == 16
    return format_id(callback_or_job_id) if is_job else format_pending_callback_id(callback_or_job_id)


def _pending(shape: PendingCallbackShape) -> PendingCallback:
    callback = callback_of(shape.callback)
    assert callback is not None  # noqa: S101 (the shape has one)
    return PendingCallback(
        id=parse_pending_callback_id(shape.id),
        job=job_of(shape.job),
        callback=callback,
        result=blob_of(shape.result, shape.result_base64, shape.result_codec),
        is_result_too_big=shape.is_result_too_big,
        last_attempt=None if shape.last_attempt is None else attempt_of(shape.last_attempt),
        attempt=shape.attempt,
        error=shape.error,
        due_at_ms=shape.due_at_ms,
        removed_at_ms=shape.removed_at_ms,
    )
