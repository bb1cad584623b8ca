"""Commands of operators and producers on a job: cancel, retry, wake, requeue, edit, delete."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Refusal
from windlass.core.operations import Edit, Edited

from .command import Argument, BatchCommand, decode_text, reply_parser
from .limits import NO_MATCH, ContentMatch, LimitMatch, match_item


def cancel(
    ids: Sequence[bytes], reason: str, counts_waiting: bool, even_failed: bool, spares_running: bool, partition: int
) -> BatchCommand[str | Refusal]:
    items = [(job_id, reason, int(counts_waiting), int(even_failed), int(spares_running)) for job_id in ids]
    return BatchCommand("cancel", (), items, reply_parser(decode_text), partition=partition)


def retry(
    matches: Sequence[LimitMatch], version: int, partition: int, *, is_whole: bool = False
) -> BatchCommand[str | Refusal]:
    return BatchCommand(
        "retry",
        (version,),
        [match_item(match) for match in matches],
        reply_parser(decode_text),
        partition=partition,
        is_whole=is_whole,
    )


def wake(ids: Sequence[bytes], partition: int) -> BatchCommand[str | Refusal]:
    return BatchCommand("wake", (), [(job_id,) for job_id in ids], reply_parser(decode_text), partition=partition)


def requeue(
    matches: Sequence[LimitMatch], gives_attempt_back: bool, version: int, partition: int
) -> BatchCommand[str | Refusal]:
    head = (int(gives_attempt_back), version)
    return BatchCommand(
        "requeue", head, [match_item(match) for match in matches], reply_parser(decode_text), partition=partition
    )


def _edit_item(request: Edit, match: ContentMatch | None) -> tuple[Argument, ...]:
    payload = request.payload
    revision, limits, tags = match or NO_MATCH
    return (
        request.id,
        request.if_revision or revision,
        int(request.in_any_state),
        request.name,
        "" if request.priority is None else request.priority,
        "" if request.run_at_ms is None else request.run_at_ms,
        "" if payload is None else int(payload.codec),
        b"" if payload is None else payload.data,
        int(limits is not None),
        limits or "",
        int(tags is not None),
        tags or "",
        _repeat(request.repeat),
        "" if request.attempt is None else request.attempt,
        request.if_token,
    )


def _repeat(rule: str | None) -> str:
    if rule is None:
        return ""
    return rule or "-"


def edit(
    requests: Sequence[tuple[Edit, ContentMatch | None]], version: int, partition: int
) -> BatchCommand[Edited | Refusal]:
    """Build the command. Each request comes with what its new content matches, if that may have changed."""
    items = [_edit_item(*request) for request in requests]
    return BatchCommand("edit", (version,), items, reply_parser(lambda reply: Edited(*reply)), partition=partition)


def delete(ids: Sequence[bytes], even_leased: bool, even_waiting: bool, partition: int) -> BatchCommand[str | Refusal]:
    items = [(job_id,) for job_id in ids]
    return BatchCommand(
        "delete", (int(even_leased), int(even_waiting)), items, reply_parser(decode_text), partition=partition
    )
