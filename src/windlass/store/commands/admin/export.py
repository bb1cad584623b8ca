"""Export and import commands: walk, export, awaited, restore, restored."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import Refusal
from windlass.store.commands.command import Argument, BatchCommand, Command, decode_text, reply_parser

WALKED_PER_CALL = 500
RELINKED_PER_CALL = 200


class NamePage(NamedTuple):
    """Page of names. The cursor is valid only for this run of the engine, and is '0' at the end."""

    run: str
    cursor: str
    names: list[bytes]


def walk(kind: str, cursor: str, partition: int) -> Command[NamePage]:
    return Command(
        "walk",
        [kind, cursor, WALKED_PER_CALL],
        lambda reply: NamePage(reply[0].decode(), reply[1].decode(), reply[2]),
        partition=partition,
    )


def export(kind: str, names: Sequence[bytes | str], partition: int) -> Command[list[Any]]:
    """Read the stored values of names, as many as fit into one reply; None: the value is gone."""
    return Command("export", [kind, *names], list, partition=partition)


class StoredJob(NamedTuple):
    record: bytes
    attempts: list[bytes]
    logs: list[bytes]
    result: bytes
    removed_at_ms: int
    is_unique_shared: bool
    parent_queue: str
    cursor: str  # of more jobs it waits for
    awaited: list[bytes]  # id + queue
    durable: list[bytes]  # fields of its durable state
    stream: list[bytes]  # entries


def read_job(reply: Sequence[Any]) -> StoredJob:
    record, attempts, logs, result, removed_at, is_shared, parent_queue, cursor, awaited, durable, stream = reply
    return StoredJob(
        record,
        attempts,
        logs,
        result,
        int(float(removed_at)) if removed_at else 0,
        is_shared == 1,
        parent_queue.decode(),
        cursor.decode(),
        awaited,
        durable,
        stream,
    )


def awaited(job_id: bytes, cursor: str, partition: int) -> Command[tuple[str, list[bytes]]]:
    return Command("awaited", [job_id, cursor], lambda reply: (reply[0].decode(), reply[1]), partition=partition)


def pack_value(value: Any) -> bytes:
    """Pack MessagePack for the engine's Lua, which reads bytes as strings."""
    if isinstance(value, Mapping):
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(
            pack_value(key) + pack_value(entry) for key, entry in value.items()
        )
    if isinstance(value, list):
        return struct.pack(">BI", 0xDD, len(value)) + b"".join(pack_value(entry) for entry in value)
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">BQ", 0xCF, value)
    content = value.encode() if isinstance(value, str) else value
    return struct.pack(">BI", 0xDB, len(content)) + content


class RestoreEntry(NamedTuple):
    """Entry to import, as restore.lua reads it."""

    kind: str
    name: bytes
    body: dict[str, Any]

    def item(self) -> tuple[Argument, ...]:
        return self.kind.encode(), self.name, pack_value(self.body)


def restore(entries: Sequence[RestoreEntry], version: int, partition: int) -> BatchCommand[str | Refusal]:
    items = [entry.item() for entry in entries]
    return BatchCommand("restore", (version,), items, reply_parser(decode_text), partition=partition)


class RelinkStep(NamedTuple):
    is_more: bool
    unknown_awaited: int


def restored(partition: int) -> Command[RelinkStep]:
    return Command(
        "restored", [RELINKED_PER_CALL], lambda reply: RelinkStep(reply[0] == 1, reply[1]), partition=partition
    )
