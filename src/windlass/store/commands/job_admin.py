"""What people and producers do to a job from outside: cancel, retry, wake, requeue, edit, delete."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Refusal
from windlass.core.operations import Edit, Edited

from .command import Argument, ItemsCall, answering, text
from .limits import Match, match_item


def cancel(
    ids: Sequence[bytes], reason: str, counts_waiting: bool, even_failed: bool, spares_running: bool, partition: int
) -> ItemsCall[str | Refusal]:
    items = [(job_id, reason, int(counts_waiting), int(even_failed), int(spares_running)) for job_id in ids]
    return ItemsCall("cancel", (), items, answering(text), partition=partition)


def retry(matches: Sequence[Match], version: int, partition: int) -> ItemsCall[str | Refusal]:
    return ItemsCall("retry", (version,), [match_item(one) for one in matches], answering(text), partition=partition)


def wake(ids: Sequence[bytes], partition: int) -> ItemsCall[str | Refusal]:
    return ItemsCall("wake", (), [(job_id,) for job_id in ids], answering(text), partition=partition)


def requeue(
    matches: Sequence[Match], gives_attempt_back: bool, version: int, partition: int
) -> ItemsCall[str | Refusal]:
    head = (int(gives_attempt_back), version)
    return ItemsCall("requeue", head, [match_item(one) for one in matches], answering(text), partition=partition)


def _edit_item(request: Edit, limits: str | None) -> tuple[Argument, ...]:
    payload = request.payload
    return (
        request.id,
        request.if_revision,
        int(request.in_any_state),
        request.name,
        "" if request.priority is None else request.priority,
        "" if request.run_at_ms is None else request.run_at_ms,
        "" if payload is None else int(payload.codec),
        b"" if payload is None else payload.data,
        int(limits is not None),
        limits or "",
        _repeat(request.repeat),
        "" if request.attempt is None else request.attempt,
    )


def _repeat(rule: str | None) -> str:
    if rule is None:
        return ""
    return rule or "-"


def edit(requests: Sequence[tuple[Edit, str | None]], version: int, partition: int) -> ItemsCall[Edited | Refusal]:
    """Each with the limits that its new content matches, where these may be others than before."""
    items = [_edit_item(*request) for request in requests]
    return ItemsCall("edit", (version,), items, answering(lambda reply: Edited(*reply)), partition=partition)


def delete(ids: Sequence[bytes], even_leased: bool, even_waiting: bool, partition: int) -> ItemsCall[str | Refusal]:
    items = [(job_id,) for job_id in ids]
    return ItemsCall("delete", (int(even_leased), int(even_waiting)), items, answering(text), partition=partition)
