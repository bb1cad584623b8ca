"""Log commands (log, logs): lines of running code, and their stored form (lua/lib/jobs/job_log.lua)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.log import KeptLine, Log, LogLine, Logs

from .command import BatchCommand, Command, ignore_reply, parse_read_reply, reply_parser

_LINE = struct.Struct(">HIB")  # instant in two halves, bytes of the level; then level and text
_ENTRY = struct.Struct(">IHIIHIB")  # entries before it, bytes before it in two halves, attempt; then as above


def _pack_line(line: LogLine) -> bytes:
    level = line.level.encode()
    packed = _LINE.pack(line.at_ms >> 32, line.at_ms & 0xFFFFFFFF, len(level)) + level + line.text.encode()
    return len(packed).to_bytes(2, "big") + packed


def log(requests: Sequence[Log], partition: int) -> BatchCommand[Refusal | None]:
    items = [(request.id, request.token, b"".join(map(_pack_line, request.lines))) for request in requests]
    return BatchCommand("log", (), items, reply_parser(ignore_reply), partition=partition)


def logs(job_id: bytes, partition: int) -> Command[Logs | Refusal]:
    return Command("logs", [job_id], lambda reply: parse_read_reply(reply, read_logs), partition=partition)


def read_logs(entries: Sequence[Any]) -> Logs:
    dropped = int.from_bytes(entries[0][:4], "big") if entries else 0
    return Logs([_read_entry(entry) for entry in entries], dropped)


def _read_entry(entry: bytes) -> KeptLine:
    _number, _bytes_high, _bytes, attempt, at_high, at, level_bytes = _ENTRY.unpack_from(entry)
    text_at = _ENTRY.size + level_bytes
    return KeptLine(attempt, at_high << 32 | at, entry[_ENTRY.size : text_at].decode(), entry[text_at:].decode())


def pack_entries(logs: Logs) -> list[bytes]:
    """Pack log lines in their stored form. The number of dropped bytes is lost, and is not used anywhere."""
    entries, before = [], 0
    for number, line in enumerate(logs.lines, logs.dropped):
        numbers = (number, before >> 32, before & 0xFFFFFFFF, line.attempt, line.at_ms >> 32, line.at_ms & 0xFFFFFFFF)
        level = line.level.encode()
        entries.append(_ENTRY.pack(*numbers, len(level)) + level + line.text.encode())
        before += len(entries[-1])
    return entries
