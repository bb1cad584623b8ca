"""Queues: configure, relane, stats, history, names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...core.queue import Configuration, Minute, QueueStats
from .call import Argument, Call

RELANED_PER_CALL = 500
_MINUTE_FIELDS = frozenset(Minute.__struct_fields__) - {"at_ms"}


def _pairs(flat: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _read_configuration(reply: Any) -> Configuration:
    stored = {key.decode(): int(value) for key, value in _pairs(reply).items()}
    known = {field: stored[field] for field in Configuration.__struct_fields__ if field in stored}
    return msgspec.convert(known, Configuration, strict=False)


def configure(queue: str, changes: Mapping[str, int | None], partition: int) -> Call[Configuration]:
    """No changes: only read. None sets a field back to its default."""
    args: list[Argument] = [queue]
    for field, value in changes.items():
        args += (field, "" if value is None else int(value))
    return Call("configure", args, _read_configuration, partition=partition)


def relane(queue: str, partition: int) -> Call[int]:
    return Call("relane", [queue, RELANED_PER_CALL], int, partition=partition)


def stats(queues: Sequence[str], partition: int) -> Call[list[QueueStats]]:
    return Call("stats", list(queues), lambda reply: _read_stats(queues, reply), partition=partition)


def _read_stats(queues: Sequence[str], reply: Any) -> list[QueueStats]:
    now_ms, rows = reply
    return [_stats_of(queue, now_ms, row) for queue, row in zip(queues, rows, strict=True)]


def _stats_of(queue: str, now_ms: int, row: list[int]) -> QueueStats:
    (
        queued,
        scheduled,
        waiting,
        running,
        finished,
        failed,
        cancelled,
        history,
        size,
        lanes,
        takers,
        oldest,
        due,
    ) = row
    return QueueStats(
        queue=queue,
        queued=queued,
        scheduled=scheduled,
        waiting=waiting,
        running=running,
        finished=finished,
        failed=failed,
        cancelled=cancelled,
        history=history,
        bytes=size,
        lanes=lanes,
        waiting_takers=takers,
        oldest_age_ms=max(0, now_ms - oldest) if oldest else None,
        next_due_at_ms=due or None,
    )


def history(queue: str, hours: int, partition: int) -> Call[list[Minute]]:
    return Call("history", [queue, hours], _read_history, partition=partition)


def _read_history(reply: Any) -> list[Minute]:
    _now_ms, parts = reply
    minutes: dict[int, dict[str, int]] = defaultdict(dict)
    for hour, fields in _pairs(parts).items():
        for key, value in _pairs(fields).items():
            minute, _, what = key.decode().partition(":")
            if what in _MINUTE_FIELDS:
                minutes[(hour * 60 + int(minute)) * 60_000][what] = int(value)
    return [Minute(at_ms=at_ms, **counts) for at_ms, counts in sorted(minutes.items())]


def queues(cursor: str, about: int, partition: int) -> Call[tuple[str, list[str]]]:
    return Call(
        "queues",
        [cursor, about],
        lambda reply: (reply[0].decode(), [name.decode() for name in reply[1]]),
        partition=partition,
    )
