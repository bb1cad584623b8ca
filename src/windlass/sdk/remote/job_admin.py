"""Operations on existing jobs over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from windlass.core.ids import format_id
from windlass.core.operations import Edit, Edited
from windlass.store.operation import BatchOperation
from windlass.wire.job_admin import (
    CancelItem,
    CancelledShape,
    DeletedShape,
    DeleteItem,
    EditedShape,
    EditItem,
    IdItem,
    RequeueItem,
    RetryItem,
    RevivedShape,
    WokenShape,
)

from .facet import RemoteFacet
from .translation import state_of, value_fields


class RemoteJobAdminOperations(RemoteFacet):
    def cancel(
        self,
        ids: Sequence[bytes],
        *,
        reason: str = "cancelled",
        counts_waiting: bool = True,
        even_failed: bool = False,
        spares_running: bool = False,
    ) -> BatchOperation[str]:
        options: dict[str, Any] = {
            "reason": reason,
            "counts_waiting": counts_waiting,
            "even_failed": even_failed,
            "spares_running": spares_running,
        }
        super().cancel(ids, **options)
        items = [CancelItem(id=format_id(job_id), **options) for job_id in ids]
        return self._batch("cancel", items, CancelledShape, lambda item: item.outcome)

    def wake(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        super().wake(ids)
        return self._batch("wake", _id_items(ids), WokenShape, lambda item: item.outcome)

    def retry(self, ids: Sequence[bytes], *, fresh: bool = False) -> BatchOperation[str]:
        super().retry(ids, fresh=fresh)
        items = [RetryItem(id=format_id(job_id), fresh=fresh) for job_id in ids]
        return self._batch("retry", items, RevivedShape, lambda item: item.outcome)

    def requeue(self, ids: Sequence[bytes], *, gives_attempt_back: bool = False) -> BatchOperation[str]:
        super().requeue(ids, gives_attempt_back=gives_attempt_back)
        items = [RequeueItem(id=format_id(job_id), gives_attempt_back=gives_attempt_back) for job_id in ids]
        return self._batch("requeue", items, RevivedShape, lambda item: item.outcome, is_repeatable=False)

    def edit(self, requests: Sequence[Edit]) -> BatchOperation[Edited]:
        super().edit(requests)
        items = [_edit_item(edit) for edit in requests]
        return self._batch("edit", items, EditedShape, lambda item: Edited(item.revision, int(state_of(item.state))))

    def delete(
        self, ids: Sequence[bytes], *, even_leased: bool = False, even_waiting: bool = True
    ) -> BatchOperation[str]:
        super().delete(ids, even_leased=even_leased, even_waiting=even_waiting)
        items = [DeleteItem(id=format_id(job_id), even_leased=even_leased, even_waiting=even_waiting) for job_id in ids]
        return self._batch("delete", items, DeletedShape, lambda item: item.outcome)


def _id_items(ids: Sequence[bytes]) -> list[IdItem]:
    return [IdItem(id=format_id(job_id)) for job_id in ids]


def _edit_item(edit: Edit) -> EditItem:
    return EditItem(
        id=format_id(edit.id),
        name=edit.name or UNSET,
        priority=UNSET if edit.priority is None else edit.priority,
        run_at_ms=UNSET if edit.run_at_ms is None else edit.run_at_ms,
        repeat=UNSET if edit.repeat is None else edit.repeat,
        if_revision=edit.if_revision,
        in_any_state=edit.in_any_state,
        **value_fields("payload", edit.payload),
    )
