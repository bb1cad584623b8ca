"""Queue commands: configure, relane, pauses, weights, stats, history, names, busy queues, existence, removal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.queue import Configuration, Minute, Pause, Property, QueueStats, default_configuration
from windlass.core.stats import histogram

from .command import Argument, BatchCommand, Command, reply_parser
from .limits import join_paths, read_paths

RELANED_PER_CALL = 500
MINUTE_MS = 60_000
_MINUTE_FIELDS = frozenset(Minute.__struct_fields__) - {"at_ms", "waits", "runs"}
_HISTOGRAM_FIELDS = {kind: frozenset(f"{kind}{bits}" for bits in range(32)) for kind in "wr"}


def _pairs(flat: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _read_configuration(queue: str, reply: Any) -> Configuration:
    stored = _pairs(reply)
    known = msgspec.structs.asdict(default_configuration(queue)) | {
        field: read_property(field, stored[field.encode()])
        for field in Configuration.__struct_fields__
        if field.encode() in stored
    }
    return msgspec.convert(known, Configuration, strict=False)


def read_property(field: str, stored: bytes) -> int | tuple[str, ...]:
    return read_paths(stored) if field == "index" else int(stored)


def pack_property(value: Property) -> str | int:
    """Return a property as stored; empty: the default."""
    if isinstance(value, tuple):
        return join_paths(value)
    return "" if value is None else int(value)


def configure(queue: str, changes: Mapping[str, Property], partition: int) -> Command[Configuration]:
    """Change and read the configuration. None resets a field to its default; no changes only read."""
    args: list[Argument] = [queue]
    for field, value in changes.items():
        args += (field, pack_property(value))
    return Command("configure", args, lambda reply: _read_configuration(queue, reply), partition=partition)


class IndexFields(NamedTuple):
    """Indexed payload fields of a queue: its own, and those of the producers of its jobs."""

    queue: tuple[str, ...]
    producers: tuple[str, ...]


def index_fields(names: Sequence[str], partition: int) -> BatchCommand[IndexFields | Refusal]:
    def read(reply: Any) -> IndexFields:
        return IndexFields(read_paths(reply[0]), read_paths(reply[1]))

    return BatchCommand("index_fields", (), [(name,) for name in names], read, partition=partition)


def relane(queue: str, partition: int) -> Command[bool]:
    """Move jobs to their lanes. The reply is whether there is more to do."""
    return Command("relane", [queue, RELANED_PER_CALL], bool, partition=partition)


def _pause_field(lane: str, name: str) -> str:
    return f"l{lane}" if lane else f"n{name}" if name else ""


def pause(queue: str, lane: str, name: str, reason: str, partition: int) -> Command[bool | Refusal]:
    args: list[Argument] = [queue, _pause_field(lane, name), reason]
    return Command("pause", args, reply_parser(bool), partition=partition)


def resume(queue: str, lane: str, name: str, partition: int) -> Command[bool]:
    return Command("resume", [queue, _pause_field(lane, name)], bool, partition=partition)


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
    return sorted(found, key=lambda pause: (pause.lane, pause.name))


def pauses(queue: str, partition: int) -> Command[list[Pause]]:
    return Command("pauses", [queue], lambda reply: _read_pauses(queue, reply), partition=partition)


def set_weights(queue: str, weights: Mapping[str, int], partition: int) -> Command[dict[str, int]]:
    """Set and read weights. No weights only read."""
    args: list[Argument] = [queue]
    for lane, weight in weights.items():
        args += (lane, weight)
    return Command("set_weights", args, _read_weights, partition=partition)


def _read_weights(reply: Any) -> dict[str, int]:
    return {lane.decode(): int(weight) for lane, weight in _pairs(reply).items()}


def stats(queues: Sequence[str], partition: int) -> Command[list[QueueStats]]:
    return Command("stats", list(queues), lambda reply: _read_stats(queues, reply), partition=partition)


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
        consequences,
        suspended,
    ) = row
    return QueueStats(
        queue=queue,
        queued=queued,
        scheduled=scheduled,
        waiting=waiting,
        running=running,
        finished=finished,
        failed=failed,
        consequences=consequences,
        suspended=suspended,
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


class QueueHistories(NamedTuple):
    """Minutes of each queue, in the order of the request."""

    now_ms: int
    minutes: list[list[Minute]]


def history(names: Sequence[str], back: int, partition: int, *, first: int = 0) -> Command[QueueHistories]:
    """Read minutes from `back` minutes ago, but not before minute `first` (since 1970)."""
    return Command(
        "history", [first, back, *names], lambda reply: _read_histories(first, back, reply), partition=partition
    )


def _read_histories(first: int, back: int, reply: Any) -> QueueHistories:
    now_ms, rows = reply
    from_ms = max(first, now_ms // MINUTE_MS - back) * MINUTE_MS
    return QueueHistories(
        now_ms, [[minute for minute in _read_minutes(row) if minute.at_ms >= from_ms] for row in rows]
    )


def _read_minutes(parts: Any) -> list[Minute]:
    minutes: dict[int, dict[str, int]] = defaultdict(dict)
    for hour, fields in _pairs(parts).items():
        for key, value in _pairs(fields).items():
            minute, _, what = key.decode().partition(":")
            minutes[(hour * 60 + int(minute)) * MINUTE_MS][what] = int(value)
    return [_read_minute(at_ms, counted) for at_ms, counted in sorted(minutes.items())]


def _read_minute(at_ms: int, counted: Mapping[str, int]) -> Minute:
    """Read the counters of a minute. `taken` and `finished` are sums over histograms, see lua/lib/jobs/counters.lua."""
    known = {what: value for what, value in counted.items() if what in _MINUTE_FIELDS}
    waits, runs = (_read_histogram(counted, kind) for kind in "wr")
    known["taken"] = known.get("taken", 0) + sum(waits)
    known["finished"] = known.get("finished", 0) + sum(runs)
    return Minute(at_ms=at_ms, waits=waits, runs=runs, **known)


def _read_histogram(counted: Mapping[str, int], kind: str) -> tuple[int, ...]:
    return histogram.from_bucket_counts(
        {int(what[1:]): value for what, value in counted.items() if what in _HISTOGRAM_FIELDS[kind]}
    )


def queues(cursor: str, about: int, partition: int) -> Command[tuple[str, list[str]]]:
    return Command(
        "queues",
        [cursor, about],
        lambda reply: (reply[0].decode(), [name.decode() for name in reply[1]]),
        partition=partition,
    )


def busy_queues(most: int, partition: int) -> Command[list[str]]:
    return Command("busy_queues", [most], lambda reply: [name.decode() for name in reply], partition=partition)


class RemovedQueue(NamedTuple):
    """Reply of `remove_queue`: the queue is removed if it holds no jobs."""

    jobs: int
    existed: bool


def remove_queue(queue: str, partition: int) -> Command[RemovedQueue]:
    return Command("remove_queue", [queue], lambda reply: RemovedQueue(reply[0], bool(reply[1])), partition=partition)


def queue_exists(queue: str, partition: int) -> Command[bool]:
    return Command("queue_exists", [queue], lambda reply: bool(reply[0]), partition=partition)
