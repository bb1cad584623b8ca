"""Stored form of a job's durable state: the Python side of lua/lib/durable/state.lua."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from windlass.core.durable import (
    DurableState,
    Step,
    StepKind,
    StepStatus,
    StreamItem,
    UnreadSignal,
    Wait,
    WaitKind,
)
from windlass.core.job import Blob

from .attempt import pack_blob, unpack_blob

# 6-byte integers are read as a 2-byte and a 4-byte half.
_STEP = struct.Struct(">BBIHIHIHIIH")
_WAIT = struct.Struct(">BHIIH")
_UNREAD = struct.Struct(">IB")
_STREAM_ENTRY = struct.Struct(">HII")
_NO_END_MS = 2**48 - 1
_KINDS: dict[WaitKind, StepKind] = {
    "sleep": StepKind.SLEEP,
    "signal": StepKind.SIGNAL,
    "children": StepKind.CHILDREN,
    "retry": StepKind.STEP,
}


def unpack_step(name: str, packed: bytes) -> Step:
    kind, status, number, *halves, tries, detail_bytes = _STEP.unpack_from(packed)
    begun, ended, wake = (halves[at] << 32 | halves[at + 1] for at in (0, 2, 4))
    end = _STEP.size + detail_bytes
    detail, value = packed[_STEP.size : end], packed[end:]
    is_children = kind == StepKind.CHILDREN
    return Step(
        name=name,
        kind=StepKind(kind),
        status=StepStatus(status),
        number=number,
        tries=tries,
        begun_at_ms=begun,
        ended_at_ms=ended or None,
        wake_at_ms=wake or None,
        signal=detail.decode() if kind == StepKind.SIGNAL else "",
        children=tuple(detail[at : at + 16] for at in range(1, len(detail), 16)) if is_children else (),
        value=unpack_blob(value),
    )


def pack_step(step: Step) -> bytes:
    """Pack a step for an import. A wait for children does not say whether it needs all of them: it is over."""
    is_children = step.kind is StepKind.CHILDREN
    detail = b"0" + b"".join(step.children) if is_children and step.children else step.signal.encode()
    instants = (step.begun_at_ms, step.ended_at_ms or 0, step.wake_at_ms or 0)
    halves = [half for at_ms in instants for half in (at_ms >> 32, at_ms & 0xFFFFFFFF)]
    head = _STEP.pack(step.kind, step.status, step.number, *halves, step.tries, len(detail))
    return head + detail + pack_blob(step.value)


def pack_unread(number: int, name: str) -> bytes:
    encoded = name.encode()
    return _UNREAD.pack(number, len(encoded)) + encoded


def pack_wait(wait: Wait) -> bytes:
    """Pack a wait for a suspension (lua/lib/durable/suspension.lua)."""
    for_ms = _NO_END_MS if wait.for_ms is None else wait.for_ms
    name, detail, value = wait.name.encode(), _pack_detail(wait), pack_blob(wait.value)
    head = _WAIT.pack(_KINDS[wait.kind], for_ms >> 32, for_ms & 0xFFFFFFFF, wait.tries, len(name))
    return b"".join((head, name, len(detail).to_bytes(2, "big"), detail, len(value).to_bytes(4, "big"), value))


def _pack_detail(wait: Wait) -> bytes:
    if wait.kind == "signal":
        return wait.signal.encode()
    if wait.kind == "children":
        return (b"1" if wait.needs_all else b"0") + b"".join(wait.children)
    return b""


def unpack_durable_state(now_ms: int, fields: Sequence[bytes]) -> DurableState:
    found = dict(zip(fields[::2], fields[1::2], strict=True))

    def number(field: bytes) -> int:
        return int(found.get(field, 0))

    steps = [unpack_step(field[1:].decode(), packed) for field, packed in found.items() if field[:1] == b"s"]
    return DurableState(
        now_ms=now_ms,
        steps=tuple(sorted(steps, key=lambda step: step.number)),
        signals=tuple(_unread_signals(found)),
        suspensions=number(b"k"),
        suspended_at_ms=number(b"t") or None,
        waits=tuple(_read_names(found.get(b"w", b""))),
        round=number(b"r"),
        has_yielded=b"y" in found,
        stream_writes=number(b"o"),
        stream_length=number(b"x"),
        bytes=number(b"b") + number(b"xb"),
    )


def _unread_signals(found: dict[bytes, bytes]) -> Iterator[UnreadSignal]:
    order, at = found.get(b"q", b""), 0
    while at < len(order):
        number, size = _UNREAD.unpack_from(order, at)
        at += _UNREAD.size
        stored = found.get(b"m%d" % number, b"")
        value = unpack_blob(stored[6:])
        if value is not None:
            yield UnreadSignal(order[at : at + size].decode(), int.from_bytes(stored[:6], "big"), value)
        at += size


def _read_names(packed: bytes) -> Iterator[str]:
    at = 0
    while at < len(packed):
        end = at + 2 + int.from_bytes(packed[at : at + 2], "big")
        yield packed[at + 2 : end].decode()
        at = end


def unpack_stream_item(position: int, entry: bytes) -> StreamItem:
    high, low, attempt = _STREAM_ENTRY.unpack_from(entry)
    value = unpack_blob(entry[_STREAM_ENTRY.size :])
    return StreamItem(position=position, at_ms=high << 32 | low, attempt=attempt, value=value)


def pack_stream_entry(at_ms: int, attempt: int, value: Blob | None) -> bytes:
    return _STREAM_ENTRY.pack(at_ms >> 32, at_ms & 0xFFFFFFFF, attempt) + pack_blob(value)
