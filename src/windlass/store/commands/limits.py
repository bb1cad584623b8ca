"""Limit commands: limit, unlimit, limits, levels, reopen, rematch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.limits.limit import Level, Limit, LimitHolder, LimitHolders, LimitTable, parse_key
from windlass.store.records.record import LIMITS_SEPARATOR

from .command import Argument, BatchCommand, Command, ignore_reply, reply_parser

KEYS_PER_STEP = 100
_HEAD = struct.Struct(">Bdd")  # kind, amount, burst: as lua/lib/limits/limits.lua reads them
_RUNNING, _RATE = 1, 2
_PATH_SEPARATOR = "\2"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Limit).decode


class LimitChange(NamedTuple):
    number: int
    version: int
    before: Limit | None


class StoredLimits(NamedTuple):
    table: LimitTable
    unmatched_version: int  # version that jobs are still being matched against; 0: none


def join_keys(limits: Sequence[str]) -> str:
    return LIMITS_SEPARATOR.join(limits)


def _pack(limit: Limit) -> bytes:
    if limit.rate is None:
        return _HEAD.pack(_RUNNING, limit.running or 0, 0) + _encode(limit)
    return _HEAD.pack(_RATE, limit.per_ms / limit.rate, limit.burst or limit.rate) + _encode(limit)


def read_limit(stored: bytes) -> Limit:
    return _decode(stored[_HEAD.size :])


def _read_changed(reply: Any) -> LimitChange:
    number, version, before = reply
    return LimitChange(number, version, read_limit(before) if before else None)


def set_limit(limit: Limit, partition: int) -> Command[LimitChange]:
    return Command("limit", [limit.name, _pack(limit)], _read_changed, partition=partition)


def unlimit(name: str, partition: int) -> Command[LimitChange | Refusal]:
    return Command("unlimit", [name], reply_parser(_read_changed), partition=partition)


def _read_limits(reply: Any) -> StoredLimits:
    version, unmatched, flat, indexes = reply
    limits = {int(flat[i]): read_limit(flat[i + 1]) for i in range(0, len(flat), 2)}
    return StoredLimits(LimitTable(version, limits, read_indexes(indexes)), unmatched)


def join_paths(paths: Sequence[str]) -> str:
    return _PATH_SEPARATOR.join(paths)


def read_paths(stored: bytes) -> tuple[str, ...]:
    return tuple(stored.decode().split(_PATH_SEPARATOR)) if stored else ()


def read_indexes(flat: Sequence[bytes]) -> dict[str, tuple[str, ...]]:
    """Return the indexed payload fields of queues."""
    return {flat[i].decode(): read_paths(flat[i + 1]) for i in range(0, len(flat), 2)}


def limits(partition: int) -> Command[StoredLimits]:
    return Command("limits", [], _read_limits, partition=partition)


class LevelPage(NamedTuple):
    cursor: str
    levels: list[Level]


def _level(row: list[Any]) -> Level:
    limit_key, running, lanes, room, token_at = row
    return Level(
        key=parse_key(limit_key.decode()),
        running=running,
        blocked_lanes=lanes,
        room=None if room < 0 else room,
        next_token_at_ms=token_at or None,
    )


def levels(number: int, cursor: str, partition: int) -> Command[LevelPage]:
    return Command(
        "levels",
        [number, cursor, KEYS_PER_STEP],
        lambda reply: LevelPage(reply[1].decode(), [_level(row) for row in reply[2]]),
        partition=partition,
    )


def holders(limit_key: str, start: int, most: int, partition: int) -> Command[LimitHolders]:
    def read(reply: Any) -> LimitHolders:
        count, flat = reply
        found = [LimitHolder(flat[i], int(flat[i + 1])) for i in range(0, len(flat), 2)]
        return LimitHolders(count=count, holders=found)

    return Command("holders", [limit_key, start, most], read, partition=partition)


def reopen(number: int, cursor: str, partition: int) -> Command[str]:
    """Reopen a page of a limit's keys. The reply is the next cursor, '0' at the end."""
    return Command("reopen", [number, cursor, KEYS_PER_STEP], lambda reply: str(reply, "ascii"), partition=partition)


class ContentMatch(NamedTuple):
    """Matches of new content of a job, given the job at this revision. None: unchanged."""

    revision: int
    limits: str | None = None
    tags: str | None = None  # all of its tags, see records/job_tags.py


NO_MATCH = ContentMatch(0)


class LimitMatch(NamedTuple):
    id: bytes
    revision: int
    limits: tuple[str, ...]


def match_item(match: LimitMatch) -> tuple[Argument, ...]:
    return match.id, match.revision, join_keys(match.limits)


def rematch(matches: Sequence[LimitMatch], version: int, partition: int) -> BatchCommand[Refusal | None]:
    items = [match_item(match) for match in matches]
    return BatchCommand("rematch", (version,), items, reply_parser(ignore_reply), partition=partition)


def rematched(version: int, partition: int) -> Command[bool]:
    return Command("rematched", [version], bool, partition=partition)
