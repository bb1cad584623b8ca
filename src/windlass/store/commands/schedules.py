"""Schedules: schedule, unschedule, pause, resume, run, read, and the firing of those that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.job import NewJob
from windlass.core.job_template import alone
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import Enqueued
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.store.records.record import Origin

from . import enqueue
from .command import Argument, Call, ItemsCall, answer, answering

DUE_PER_STEP = 50
NAMES_PER_PAGE = 100
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Schedule).decode


def schedule(one: Schedule, known_revision: int, next_at_ms: int | None, partition: int) -> Call[int | Refusal]:
    """`known_revision` 0: there is none yet. `next_at_ms` None: its next occurrence stays as it is."""
    args: list[Argument] = [one.name, known_revision, _encode(one), "" if next_at_ms is None else next_at_ms]
    return Call("schedule", args, lambda reply: answer(reply, int), partition=partition)


def unschedule(name: str, if_revision: int, partition: int) -> Call[int | Refusal]:
    return Call("unschedule", [name, if_revision], lambda reply: answer(reply, int), partition=partition)


def pause_schedule(name: str, reason: str, partition: int) -> Call[int | Refusal]:
    return Call("pause_schedule", [name, reason], lambda reply: answer(reply, int), partition=partition)


def resume_schedule(name: str, known_revision: int, next_at_ms: int | None, partition: int) -> Call[int | Refusal]:
    args: list[Argument] = [name, known_revision, next_at_ms or 0]
    return Call("resume_schedule", args, lambda reply: answer(reply, int), partition=partition)


def run_schedule(
    status: ScheduleStatus, job_id: bytes, now_ms: int, limits: LimitTable, partition: int
) -> Call[Enqueued | Refusal]:
    name = status.schedule.name
    job = enqueue.item(job_id, alone(status.schedule.job), now_ms, limits, Origin(name, now_ms))
    args: list[Argument] = [name, status.revision, now_ms, *job, limits.version]
    return Call("run_schedule", args, lambda reply: answer(reply, enqueue.read), partition=partition)


class Due(NamedTuple):
    """A schedule whose time has come."""

    schedule: Schedule
    next_at_ms: int
    revision: int


class DueStep(NamedTuple):
    now_ms: int
    next_at_ms: int | None  # of any schedule
    due: list[Due]


def due(partition: int) -> Call[DueStep]:
    return Call("due", [DUE_PER_STEP], _read_due, partition=partition)


def _read_due(reply: Any) -> DueStep:
    now_ms, next_at_ms, entries = reply
    found = [Due(_decode(definition), at_ms, revision) for _name, at_ms, revision, definition in entries]
    return DueStep(now_ms, next_at_ms or None, found)


class Fire(NamedTuple):
    """What a schedule that is due does: the jobs of its occurrences, and where it goes on."""

    due: Due
    next_at_ms: int | None
    skipped: int
    missed: int
    jobs: list[tuple[int, bytes, NewJob]]  # planned instant, id


def _fire_item(fire: Fire, now_ms: int, limits: LimitTable) -> tuple[Argument, ...]:
    schedule = fire.due.schedule
    item: list[Argument] = [schedule.name, fire.due.next_at_ms, fire.due.revision, fire.next_at_ms or 0]
    item += (fire.skipped, fire.missed, schedule.overlap, len(fire.jobs))
    for planned_at_ms, job_id, job in fire.jobs:
        item += (planned_at_ms, *enqueue.item(job_id, alone(job), now_ms, limits, Origin(schedule.name, planned_at_ms)))
    return tuple(item)


def fire(fires: Sequence[Fire], now_ms: int, limits: LimitTable, partition: int) -> ItemsCall[int | Refusal]:
    items = [_fire_item(one, now_ms, limits) for one in fires]
    return ItemsCall("fire", (limits.version,), items, answering(int), partition=partition)


def schedule_of(names: Sequence[str], partition: int) -> Call[list[ScheduleStatus | None]]:
    return Call(
        "schedule_of", list(names), lambda reply: [_read_status(fields) for fields in reply], partition=partition
    )


def _read_status(flat: list[bytes]) -> ScheduleStatus | None:
    if not flat:
        return None
    fields = dict(zip(flat[::2], flat[1::2], strict=True))

    def number(field: bytes) -> int:
        return int(fields.get(field, 0))

    return ScheduleStatus(
        schedule=_decode(fields[b"definition"]),
        revision=number(b"revision"),
        created_at_ms=number(b"created_at"),
        planned_at_ms=number(b"next_at") or None,
        is_paused=b"paused" in fields,
        pause_reason=fields.get(b"paused", b"").decode(),
        last_planned_at_ms=number(b"last_planned_at") or None,
        last_fired_at_ms=number(b"last_fired_at") or None,
        last_job=fields.get(b"last_job"),
        fired=number(b"fired"),
        skipped=number(b"skipped"),
        missed=number(b"missed"),
    )


def schedules(after: str, partition: int) -> Call[list[str]]:
    """Names, a page at a time."""
    return Call(
        "schedules",
        [after, NAMES_PER_PAGE],
        lambda reply: [name.decode() for name in reply],
        partition=partition,
    )
