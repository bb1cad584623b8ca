"""Commands for keys with their own caps: aggregations, aggregation, set_cap. A stored cap is its number, then data of
its callers."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from windlass.core.errors import Refusal
from windlass.core.job import Cap
from windlass.core.limits.limit import Aggregation, AggregationPage, display_key

from .command import Command, reply_parser

KEY_SHOWN_MAX = 1024  # characters
_HEAD = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str]).decode


def pack_cap(cap: Cap, key: str) -> bytes:
    return _HEAD.pack(cap.running) + _pack_data(key, cap.note)


def _pack_data(key: str, note: str) -> bytes:
    return _encode((key[:KEY_SHOWN_MAX], note))


def _aggregation(row: list[Any]) -> Aggregation:
    text, queued, scheduled, running, stored = row
    cap = _HEAD.unpack_from(stored)[0] if stored else None
    key, note = _decode(stored[_HEAD.size :]) if stored else (display_key(text.decode()), "")
    return Aggregation(key=key, queued=queued, scheduled=scheduled, running=running, cap=cap, note=note)


def aggregations(limit: str, after: str, most: int, partition: int) -> Command[AggregationPage | Refusal]:
    def read(reply: Any) -> AggregationPage:
        return AggregationPage(aggregations=[_aggregation(row) for row in reply[1]], cursor=reply[0].decode())

    return Command("aggregations", [limit, after, most], reply_parser(read), partition=partition)


def aggregation(limit: str, key: str, partition: int) -> Command[Aggregation | Refusal]:
    return Command("aggregation", [limit, key], reply_parser(_aggregation), partition=partition)


def set_cap(
    limit: str, key: str, running: int | None, note: str | None, shown_key: str, partition: int
) -> Command[Aggregation | Refusal]:
    """Change a cap. `running` and `note` None: they stay as they are."""
    data = _pack_data(shown_key, note or "")
    args = [limit, key, "" if running is None else running, data, int(note is None)]
    return Command("set_cap", args, reply_parser(_aggregation), partition=partition)
