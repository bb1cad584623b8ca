"""What people and producers do about jobs that exist, over HTTP."""

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
    RevivedShape,
    WokenShape,
)

from .facet import RemoteAsking
from .translation import state_of, value_fields


class RemoteIntervening(RemoteAsking):
    def cancel(
        self,
        ids: Sequence[bytes],
        *,
        reason: str = "cancelled",
        counts_waiting: bool = True,
        even_failed: bool = False,
        spares_running: bool = False,
    ) -> BatchOperation[str]:
        given: dict[str, Any] = {
            "reason": reason,
            "counts_waiting": counts_waiting,
            "even_failed": even_failed,
            "spares_running": spares_running,
        }
        super().cancel(ids, **given)
        items = [CancelItem(id=format_id(one), **given) for one in ids]
        return self._about("cancel", items, CancelledShape, lambda one: one.outcome)

    def wake(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        super().wake(ids)
        return self._about("wake", _plain(ids), WokenShape, lambda one: one.outcome)

    def retry(self, ids: Sequence[bytes]) -> BatchOperation[str]:
        super().retry(ids)
        return self._about("retry", _plain(ids), RevivedShape, lambda one: one.outcome)

    def requeue(self, ids: Sequence[bytes], *, gives_attempt_back: bool = False) -> BatchOperation[str]:
        super().requeue(ids, gives_attempt_back=gives_attempt_back)
        items = [RequeueItem(id=format_id(one), gives_attempt_back=gives_attempt_back) for one in ids]
        return self._about("requeue", items, RevivedShape, lambda one: one.outcome, is_repeatable=False)

    def edit(self, requests: Sequence[Edit]) -> BatchOperation[Edited]:
        super().edit(requests)
        items = [_edit_item(one) for one in requests]
        return self._about("edit", items, EditedShape, lambda one: Edited(one.revision, int(state_of(one.state))))

    def delete(
        self, ids: Sequence[bytes], *, even_leased: bool = False, even_waiting: bool = True
    ) -> BatchOperation[str]:
        super().delete(ids, even_leased=even_leased, even_waiting=even_waiting)
        items = [DeleteItem(id=format_id(one), even_leased=even_leased, even_waiting=even_waiting) for one in ids]
        return self._about("delete", items, DeletedShape, lambda one: one.outcome)


def _plain(ids: Sequence[bytes]) -> list[IdItem]:
    return [IdItem(id=format_id(one)) for one in ids]


def _edit_item(one: Edit) -> EditItem:
    return EditItem(
        id=format_id(one.id),
        name=one.name or UNSET,
        priority=UNSET if one.priority is None else one.priority,
        run_at_ms=UNSET if one.run_at_ms is None else one.run_at_ms,
        repeat=UNSET if one.repeat is None else one.repeat,
        if_revision=one.if_revision,
        in_any_state=one.in_any_state,
        **value_fields("payload", one.payload),
    )
