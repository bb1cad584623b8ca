"""Invariants of durable state: the hash and the stream of a job agree with its record and with themselves."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.service.flag_bits import BITS
from windlass.core.durable import STREAM_KEPT_MS, StepStatus
from windlass.core.job import Job
from windlass.core.states import ENDED, State
from windlass.store.records.durable_state import unpack_durable_state, unpack_step

if TYPE_CHECKING:
    from tests.service.machines.invariants import Snapshot, Stored

DURABLE_KINDS = ("y", "x")  # hash and stream of a job
Fields = dict[bytes, bytes]
_UNREAD = struct.Struct(">IB")


def fields_of(found: Snapshot, job_id: bytes) -> Fields:
    fields: Fields = found.values.get(f"y:{job_id.decode('latin-1')}", {})
    return fields


def durable_bytes(found: Snapshot, one: Stored) -> int:
    """Return the bytes of steps, signals and stream as the entries have them, not as they are counted."""
    fields = fields_of(found, one.job.id)
    steps = sum(len(field) - 1 + len(value) for field, value in fields.items() if field[:1] == b"s")
    signals = sum(len(value) for field, value in fields.items() if field[:1] == b"m")
    return steps + signals + sum(len(value) for value in _stream(found, one.job.id).values())


def is_resumed(before: Snapshot, job_id: bytes) -> bool:
    """Return whether the next run of a job continues after a suspension: it spends no tokens of rates."""
    one = before.jobs.get(job_id)
    return one is not None and (one.job.state is State.SUSPENDED or b"z" in fields_of(before, job_id))


def fresh_starts(before: Snapshot, jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if not is_resumed(before, job.id)]


def stream_kept_ms(found: Snapshot, one: Stored) -> int:
    """Return how long a finished job without a kept result stays for the readers of its stream."""
    return STREAM_KEPT_MS if _stream(found, one.job.id) else 0


def check_durable_states(found: Snapshot) -> None:
    marked = {one.job.id.decode("latin-1") for one in found.jobs.values() if one.flags & BITS.DURABLE}
    assert {key for key, _ in found.of_kind("y:")} == marked, "hashes and marks of durable jobs differ"
    assert {key for key, _ in found.of_kind("x:")} <= marked, "a stream that belongs to no job"
    for job_id in marked:
        one = found.jobs[job_id.encode("latin-1")]
        fields = fields_of(found, one.job.id)
        _check_steps(one, fields)
        _check_signals(one, fields)
        _check_stream(found, one, fields)
        _check_waits(one, fields)
        counted = int(fields.get(b"b", 0)) + int(fields.get(b"xb", 0))
        assert counted == durable_bytes(found, one), f"counts {counted} bytes, has {durable_bytes(found, one)}"


def _check_steps(one: Stored, fields: Fields) -> None:
    steps = [unpack_step(field[1:].decode(), value) for field, value in fields.items() if field[:1] == b"s"]
    numbers = [step.number for step in steps]
    assert len(set(numbers)) == len(numbers), f"two steps with one number: {steps}"
    assert max(numbers, default=0) <= int(fields.get(b"n", 0)), f"a number that was not given out: {steps}"
    assert len(steps) == int(fields.get(b"c", 0)), f"counts {fields.get(b'c')} steps, has {len(steps)}"
    assert not steps or one.flags & BITS.NEEDS_STEPS, f"any taker would get it: {one.job}"
    assert not one.job.needs_steps or one.job.expires_at_ms is None, f"has started and would expire: {one.job}"
    for step in steps:
        assert (step.status is StepStatus.WAITING) == (step.ended_at_ms is None), f"end and status differ: {step}"


def _check_signals(one: Stored, fields: Fields) -> None:
    order, at, listed = fields.get(b"q", b""), 0, list[int]()
    while at < len(order):
        number, size = _UNREAD.unpack_from(order, at)
        listed.append(number)
        at += _UNREAD.size + size
    stored = {int(field[1:]) for field in fields if field[:1] == b"m"}
    assert listed == sorted(stored), f"lists the signals {listed}, has {sorted(stored)}: {one.job}"
    assert max(listed, default=0) <= int(fields.get(b"g", 0)), "a signal that was not numbered"


def _stream(found: Snapshot, job_id: bytes) -> dict[int, bytes]:
    entries = found.values.get(f"x:{job_id.decode('latin-1')}", [])
    return {int(entry_id.partition(b"-")[0]): content[1] for entry_id, content in entries}


def _check_stream(found: Snapshot, one: Stored, fields: Fields) -> None:
    positions = list(_stream(found, one.job.id))
    assert positions == list(range(1, len(positions) + 1)), f"a gap in the stream of {one.job}"
    assert len(positions) == int(fields.get(b"x", 0)), f"another length of the stream is counted: {one.job}"


def _check_waits(one: Stored, fields: Fields) -> None:
    """Check that a job waits while it is suspended, and then wakes no later than its first wait ends."""
    flat = [part for pair in fields.items() for part in pair]
    state = unpack_durable_state(0, flat)
    is_suspended = one.job.state is State.SUSPENDED
    assert bool(state.waits) == is_suspended, f"waits for {state.waits}: {one.job}"
    assert (state.suspended_at_ms is not None) == is_suspended, f"suspended since {state.suspended_at_ms}: {one.job}"
    waits = [step for step in state.steps if step.name in state.waits]
    ends = [step.wake_at_ms for step in waits if step.wake_at_ms]
    assert not ends or 0 < one.job.run_at_ms <= min(ends), f"sleeps too long: {one.job}"
    for step in waits:
        assert step.status is StepStatus.WAITING, f"suspended though {step} is over"
    assert one.job.state not in ENDED or not state.waits
