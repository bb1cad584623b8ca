"""Queues: configure, relane, stats, history, names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...core.errors import Refusal
from ...core.queue import Configuration, Minute, Pause, QueueStats
from .call import Argument, Call, answering

RELANED_PER_CALL = 500
_MINUTE_FIELDS = frozenset(Minute.__struct_fields__) - {"at_ms"}


def _pairs(flat: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _read_configuration(reply: Any) -> Configuration:
    stored = _pairs(reply)
    known = {
        field: int(stored[field.encode()]) for field in Configuration.__struct_fields__ if field.encode() in stored
    }
    return msgspec.convert(known, Configuration, strict=False)


def configure(queue: str, changes: Mapping[str, int | None], partition: int) -> Call[Configuration]:
    """No changes: only read. None sets a field back to its default."""
    args: list[Argument] = [queue]
    for field, value in changes.items():
        args += (field, "" if value is None else int(value))
    return Call("configure", args, _read_configuration, partition=partition)


def relane(queue: str, partition: int) -> Call[bool]:
    """Says whether there is more to do."""
    return Call("relane", [queue, RELANED_PER_CALL], bool, partition=partition)


def _paused(lane: str, name: str) -> str:
    return f"l{lane}" if lane else f"n{name}" if name else ""


def pause(queue: str, lane: str, name: str, reason: str, partition: int) -> Call[bool | Refusal]:
    args: list[Argument] = [queue, _paused(lane, name), reason]
    return Call("pause", args, answering(bool), partition=partition)


def resume(queue: str, lane: str, name: str, partition: int) -> Call[bool]:
    return Call("resume", [queue, _paused(lane, name)], bool, partition=partition)


def read_pause(queue: str, what: bytes, content: bytes) -> Pause:
    kind, rest = what[:1], what[1:].decode()
    return Pause(
        queue=queue,
        lane=rest if kind == b"l" else "",
        name=rest if kind == b"n" else "",
        since_ms=int.from_bytes(content[:6], "big"),
        reason=content[6:].decode(),
    )


def _read_pauses(queue: str, reply: Any) -> list[Pause]:
    found = [read_pause(queue, what, content) for what, content in _pairs(reply).items()]
    return sorted(found, key=lambda one: (one.lane, one.name))


def pauses(queue: str, partition: int) -> Call[list[Pause]]:
    return Call("pauses", [queue], lambda reply: _read_pauses(queue, reply), partition=partition)


def weigh(queue: str, weights: Mapping[str, int], partition: int) -> Call[dict[str, int]]:
    """No weights: only read."""
    args: list[Argument] = [queue]
    for lane, weight in weights.items():
        args += (lane, weight)
    return Call("weigh", args, _read_weights, partition=partition)


def _read_weights(reply: Any) -> dict[str, int]:
    return {lane.decode(): int(weight) for lane, weight in _pairs(reply).items()}


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
        blocked,
        is_paused,
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
        blocked_lanes=blocked,
        is_paused=bool(is_paused),
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
