"""Invariants of limits, pauses and parked lanes: no lane is blocked without a reason, and nothing is left behind."""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.service.machines.invariants import Snapshot

LIMITING = (
    "holders", "parked", "parked_at", "parked_in", "held", "room", "rates", "pauses", "weights", "turns", "entered",
    "caps", "keyed", "under",
)  # fmt: skip
LIMITING_SINGLE = ("limits", "limit_names", "limits_version", "limit_number", "rematch", "idle_caps", "indexed_queues")
_RUNNING = 1


CAP_KEPT_MS = 5_000  # after the last job of its key


def number_of(limit_key: str) -> str:
    return re.split("[:=]", limit_key, maxsplit=1)[0]


def own_cap(found: Snapshot, limit_key: str) -> int | None:
    """Return the stored cap, whether or not it has expired."""
    raw = found.values.get(f"caps:{number_of(limit_key)}", {}).get(limit_key.encode("latin-1"))
    return None if raw is None else int.from_bytes(raw[:4], "big")


def _is_pause(limit_key: str) -> bool:
    return not limit_key[:1].isdigit()


def is_rate(found: Snapshot, limit_key: str) -> bool:
    raw = found.values.get("limits", {}).get(number_of(limit_key).encode(), bytes((_RUNNING,)))
    return bool(raw[0] != _RUNNING)


def room(found: Snapshot, queue: str, limit_key: str) -> float:
    """Return how many more jobs may start under a limit key now, computed from the stored data."""
    if _is_pause(limit_key):
        return 0 if limit_key.encode("latin-1") in found.values.get(f"pauses:{queue}", {}) else math.inf
    raw = found.values.get("limits", {}).get(number_of(limit_key).encode())
    if raw is None:
        return math.inf
    kind, amount, burst = struct.unpack_from(">Bdd", raw)
    if kind == _RUNNING:
        own = own_cap(found, limit_key)
        return float((amount if own is None else own) - len(found.zset(f"holders:{limit_key}")))
    full_at = max(float(found.values.get(f"full_at:{limit_key}", 0)), found.now_ms)
    return float(math.floor((found.now_ms + burst * amount - full_at + 0.001) / amount))


def _lines(found: Snapshot) -> list[tuple[str, str]]:
    return [tuple(rest.split("\0", 1)) for rest, _ in found.of_kind("parked:")]  # type: ignore[misc]


def check_no_line_is_forgotten(found: Snapshot) -> None:
    """Check that a line of parked lanes below its limit is marked, or that the timer of its queue is due."""
    for queue, limit_key in _lines(found):
        name = limit_key.encode("latin-1")
        if name in found.zset(f"room:{queue}"):
            continue
        opens_at = found.zset(f"rates:{queue}").get(name, math.inf)
        assert room(found, queue, limit_key) <= 0 or opens_at <= found.now_ms, (
            f"{limit_key!r} has room, but {queue!r} waits"
        )
        if opens_at < math.inf:
            at = found.zset("timers:due").get(queue.encode(), math.inf)
            assert at <= opens_at, f"nobody looks at {queue!r} at {opens_at}"
        elif not _is_pause(limit_key):
            raw = found.values["limits"][number_of(limit_key).encode()]
            assert raw[0] == _RUNNING, f"the rate {limit_key!r} will never open {queue!r}"


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, set[bytes]]:
    groups: dict[str, set[bytes]] = {}
    for group, member in pairs:
        groups.setdefault(group, set()).add(member.encode("latin-1"))
    return groups


def _sets(found: Snapshot, kind: str) -> dict[str, Any]:
    return dict(found.of_kind(kind))


def check_caps(found: Snapshot) -> None:
    """Check caps: a key with its own cap has jobs that have not ended, or loses the cap soon; it is listed in both
    cases."""
    capped = {limit_key.decode("latin-1"): number for number, caps in found.of_kind("caps:") for limit_key in caps}
    assert all(number_of(limit_key) == number for limit_key, number in capped.items()), "a cap of another limit"
    with_jobs = {limit_key for limit_key, _ in found.of_kind("under:")}
    keyed = _grouped([(number_of(limit_key), limit_key) for limit_key in with_jobs | capped.keys()])
    assert {number: set(members) for number, members in found.of_kind("keyed:")} == keyed, "keys that are listed"
    idle = {limit_key.decode("latin-1"): at for limit_key, at in found.zset("idle_caps").items()}
    assert idle.keys() == capped.keys() - with_jobs, "caps of keys without jobs"
    assert all(at <= found.now_ms + CAP_KEPT_MS for at in idle.values()), "a cap that stays too long"


def check_limits(found: Snapshot) -> None:
    check_caps(found)
    lines = _lines(found)
    parked_in = _grouped([(limit_key, queue) for queue, limit_key in lines if not _is_pause(limit_key)])
    assert _sets(found, "parked_in:") == parked_in, "queues in which lanes are parked"
    live = {*parked_in, *(limit_key for limit_key, _ in found.of_kind("holders:"))}
    held = _grouped([(number_of(limit_key), limit_key) for limit_key in live])
    assert _sets(found, "held:") == held, "holdups that hold something"
    under = {
        (queue, limit_key.decode("latin-1"))
        for queue, lanes in found.of_kind("parked_at:")
        for limit_key in lanes.values()
    }
    assert under == set(lines), f"parked under {under}, but lines are {lines}"
    for queue, marks in found.of_kind("room:"):
        assert {(queue, mark.decode("latin-1")) for mark in marks} <= set(lines), f"room of {queue!r} for nobody"
    for queue, marks in found.of_kind("rates:"):
        assert {(queue, mark.decode("latin-1")) for mark in marks} <= set(lines), f"rates of {queue!r} for nobody"
    for queue, pauses in found.of_kind("pauses:"):
        assert found.number(queue, b"pauses") == len(pauses), f"pauses of {queue!r}"
    check_no_line_is_forgotten(found)
