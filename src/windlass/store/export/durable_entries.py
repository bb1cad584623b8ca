"""Durable state of jobs to export entries and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.core.durable import Step, StepKind, StepStatus
from windlass.core.export import lines
from windlass.core.export.blobs import decode_blob, encode_blob
from windlass.core.ids import format_id
from windlass.store.records.attempt import pack_blob
from windlass.store.records.durable_state import (
    pack_step,
    pack_stream_entry,
    pack_unread,
    unpack_durable_state,
    unpack_stream_item,
)

_ID_BYTES = 16


def write_durable(fields: Sequence[bytes], stream: Sequence[bytes]) -> lines.DurableEntry | None:
    if not fields:
        return None
    state = unpack_durable_state(0, fields)
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    seen = found.get(b"i", b"")
    return lines.DurableEntry(
        steps=[_write_step(step) for step in state.steps],
        signals=[lines.SignalEntry(one.name, one.at_ms, encode_blob(one.value)) for one in state.signals],
        request_ids=[seen[at : at + _ID_BYTES].hex() for at in range(0, len(seen), _ID_BYTES)],
        used_links=sorted(field[1:].hex() for field in found if field[:1] == b"u"),
        suspensions=state.suspensions,
        round=state.round,
        has_yielded=state.has_yielded,
        stream=[_write_stream_item(position, entry) for position, entry in enumerate(stream, 1)],
        stream_writes=state.stream_writes,
    )


def _write_step(step: Step) -> lines.StepEntry:
    return lines.StepEntry(
        name=step.name,
        kind=step.kind.label,  # type: ignore[arg-type]
        status=step.status.label,  # type: ignore[arg-type]
        tries=step.tries,
        begun_at_ms=step.begun_at_ms,
        ended_at_ms=step.ended_at_ms or 0,
        wake_at_ms=step.wake_at_ms or 0,
        signal=step.signal,
        children=[format_id(child) for child in step.children],
        value=encode_blob(step.value) if step.value else None,
    )


def _write_stream_item(position: int, entry: bytes) -> lines.StreamEntry:
    item = unpack_stream_item(position, entry)
    return lines.StreamEntry(item.at_ms, item.attempt, encode_blob(item.value) if item.value else None)


def read_durable(entry: lines.DurableEntry, map_id: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the hash and the stream entries of a job, as restore.lua writes them.

    A wait for children is left out: the code of the job makes it again, with the ids that the children have then."""
    steps = [step for step in entry.steps if not (step.kind == "children" and step.status == "waiting")]
    packed = {step.name: pack_step(_read_step(number, step, map_id)) for number, step in enumerate(steps, 1)}
    signals = [one.at_ms.to_bytes(6, "big") + pack_blob(decode_blob(one.value)) for one in entry.signals]
    stream = [
        pack_stream_entry(one.at_ms, one.attempt, decode_blob(one.value) if one.value else None) for one in entry.stream
    ]
    fields: dict[str | bytes, bytes] = {f"s{name}": value for name, value in packed.items()}
    fields |= {f"m{number}": value for number, value in enumerate(signals, 1)}
    numbers = {
        "n": len(steps),
        "c": len(steps),
        "b": sum(len(name.encode()) + len(value) for name, value in packed.items()) + sum(map(len, signals)),
        "k": entry.suspensions,
        "r": entry.round,
        "g": len(signals),
        "o": entry.stream_writes,
        "x": len(stream),
        "xb": sum(map(len, stream)),
    }
    fields |= {field: str(number).encode() for field, number in numbers.items()}
    if signals:
        fields["q"] = b"".join(pack_unread(number, one.name) for number, one in enumerate(entry.signals, 1))
    if entry.request_ids:
        fields["i"] = b"".join(map(bytes.fromhex, entry.request_ids))
    fields |= {b"u" + bytes.fromhex(request_id): b"1" for request_id in entry.used_links}
    if entry.has_yielded:
        fields["y"] = b"1"
    return {"fields": fields, "stream": stream}


def _read_step(number: int, step: lines.StepEntry, map_id: Callable[[str], bytes]) -> Step:
    return Step(
        name=step.name,
        kind=StepKind[step.kind.upper()],
        status=StepStatus[step.status.upper()],
        number=number,
        tries=step.tries,
        begun_at_ms=step.begun_at_ms,
        ended_at_ms=step.ended_at_ms or None,
        wake_at_ms=step.wake_at_ms or None,
        signal=step.signal,
        children=tuple(map_id(child) for child in step.children),
        value=decode_blob(step.value) if step.value else None,
    )
