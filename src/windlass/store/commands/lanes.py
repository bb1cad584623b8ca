"""Lanes command: the lanes of a queue."""

from __future__ import annotations

import base64
from typing import Any

from windlass.core.errors import BadInput
from windlass.core.limits.limit import LimitTable, split_limit_key
from windlass.core.queue import HeldUp, Lane, Lanes
from windlass.store.records.record import LIMITS_SEPARATOR

from .command import Argument, Command

CURSOR_MAX = 8 * 1024  # an entry is identified by lane, name and limits
_HIDDEN = "\1"  # before the lane of hidden jobs, see lua/lib/queues/lanes.lua


def lanes(queue: str, cursor: str, most: int, table: LimitTable, partition: int) -> Command[Lanes]:
    """Read lanes. The table names the limits, which the engine knows by number."""
    args: list[Argument] = [queue, _decode_cursor(cursor), most]
    return Command("lanes", args, lambda reply: _read(table, reply), partition=partition)


def _decode_cursor(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor.encode(), b"-_", validate=True)
    except ValueError as error:
        raise BadInput("The cursor does not come from a page; start again without it.") from error


def check_cursor(cursor: str) -> None:
    _decode_cursor(cursor)


def _read(table: LimitTable, reply: Any) -> Lanes:
    now_ms, cursor, rows = reply
    return Lanes(lanes=[_lane(table, now_ms, row) for row in rows], cursor=base64.urlsafe_b64encode(cursor).decode())


def _lane(table: LimitTable, now_ms: int, row: Any) -> Lane:
    place, queued, ready_at_ms, limit_key = row
    tenant, name, limits = (*place.decode().split("\0", 2), "", "")[:3]
    held = limit_key.decode()
    return Lane(
        lane=tenant.removeprefix(_HIDDEN),
        name=name,
        is_hidden=tenant.startswith(_HIDDEN),
        limits=tuple(_limit_label(table, limit_key) for limit_key in limits.split(LIMITS_SEPARATOR) if limit_key),
        queued=queued,
        oldest_age_ms=max(0, now_ms - ready_at_ms),
        held_by=_read_hold(table, held) if held else None,
    )


def _limit_label(table: LimitTable, limit_key: str) -> str:
    number, key = split_limit_key(limit_key)
    limit = table.limits.get(number)
    name = limit.name if limit else str(number)
    return name if key is None else f"{name}:{key}"


def _read_hold(table: LimitTable, blocker: str) -> HeldUp:
    if not blocker[:1].isdecimal():
        return HeldUp(pause={"l": "lane", "n": "name"}.get(blocker[:1], "queue"))
    number, key = split_limit_key(blocker)
    limit = table.limits.get(number)
    return HeldUp(limit=limit.name if limit else "", key=key)
