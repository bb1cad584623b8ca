"""Schedule commands: schedule, unschedule, pause, resume, run, read, and fire due schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.job import NewJob
from windlass.core.job_template import prepare_single
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import Enqueued
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.store.records.record import ScheduleOrigin

from . import enqueue
from .command import Argument, BatchCommand, Command, parse_reply, reply_parser

DUE_PER_STEP = 50
NAMES_PER_PAGE = 100
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Schedule).decode


def schedule(
    definition: Schedule, known_revision: int, next_at_ms: int | None, partition: int
) -> Command[int | Refusal]:
    """Store a schedule. `known_revision` 0: it is new. `next_at_ms` None: its next occurrence is unchanged."""
    args: list[Argument] = [
        definition.name,
        known_revision,
        _encode(definition),
        "" if next_at_ms is None else next_at_ms,
    ]
    return Command("schedule", args, lambda reply: parse_reply(reply, int), partition=partition)


def unschedule(name: str, if_revision: int, partition: int) -> Command[int | Refusal]:
    return Command("unschedule", [name, if_revision], lambda reply: parse_reply(reply, int), partition=partition)


def pause_schedule(name: str, reason: str, partition: int) -> Command[int | Refusal]:
    return Command("pause_schedule", [name, reason], lambda reply: parse_reply(reply, int), partition=partition)


def resume_schedule(name: str, known_revision: int, next_at_ms: int | None, partition: int) -> Command[int | Refusal]:
    args: list[Argument] = [name, known_revision, next_at_ms or 0]
    return Command("resume_schedule", args, lambda reply: parse_reply(reply, int), partition=partition)


def run_schedule(
    status: ScheduleStatus, job_id: bytes, now_ms: int, limits: LimitTable, partition: int
) -> Command[Enqueued | Refusal]:
    name = status.schedule.name
    job = enqueue.enqueue_item(
        job_id, prepare_single(status.schedule.job), now_ms, limits, ScheduleOrigin(name, now_ms)
    )
    args: list[Argument] = [name, status.revision, now_ms, *job, limits.version]
    return Command("run_schedule", args, lambda reply: parse_reply(reply, enqueue.read_enqueued), partition=partition)


class DueSchedule(NamedTuple):
    """Schedule that is due."""

    schedule: Schedule
    next_at_ms: int
    revision: int


class DueSchedules(NamedTuple):
    now_ms: int
    next_at_ms: int | None  # of any schedule
    due: list[DueSchedule]


def due(partition: int) -> Command[DueSchedules]:
    return Command("due", [DUE_PER_STEP], _read_due, partition=partition)


def _read_due(reply: Any) -> DueSchedules:
    now_ms, next_at_ms, entries = reply
    found = [DueSchedule(_decode(definition), at_ms, revision) for _name, at_ms, revision, definition in entries]
    return DueSchedules(now_ms, next_at_ms or None, found)


class ScheduleFiring(NamedTuple):
    """Firing of a due schedule: the jobs of its occurrences, and its next occurrence."""

    due: DueSchedule
    next_at_ms: int | None
    skipped: int
    missed: int
    jobs: list[tuple[int, bytes, NewJob]]  # planned instant, id


def _fire_item(fire: ScheduleFiring, now_ms: int, limits: LimitTable) -> tuple[Argument, ...]:
    schedule = fire.due.schedule
    item: list[Argument] = [schedule.name, fire.due.next_at_ms, fire.due.revision, fire.next_at_ms or 0]
    item += (fire.skipped, fire.missed, schedule.overlap, len(fire.jobs))
    for planned_at_ms, job_id, job in fire.jobs:
        item += (
            planned_at_ms,
            *enqueue.enqueue_item(
                job_id, prepare_single(job), now_ms, limits, ScheduleOrigin(schedule.name, planned_at_ms)
            ),
        )
    return tuple(item)


def fire(
    fires: Sequence[ScheduleFiring], now_ms: int, limits: LimitTable, partition: int
) -> BatchCommand[int | Refusal]:
    items = [_fire_item(fire, now_ms, limits) for fire in fires]
    return BatchCommand("fire", (limits.version,), items, reply_parser(int), partition=partition)


def schedule_of(names: Sequence[str], partition: int) -> Command[list[ScheduleStatus | None]]:
    return Command(
        "schedule_of", list(names), lambda reply: [_read_status(fields) for fields in reply], partition=partition
    )


def _read_status(flat: list[Any]) -> ScheduleStatus | None:
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
        last_jobs=tuple(fields.get(b"last_jobs", ())),
    )


class ScheduleNames(NamedTuple):
    """Page of names, in byte order, and the number of all schedules of the partition."""

    total: int
    names: list[str]


def schedules(after: str, partition: int, most: int = NAMES_PER_PAGE) -> Command[ScheduleNames]:
    return Command(
        "schedules",
        [after, most],
        lambda reply: ScheduleNames(reply[0], [name.decode() for name in reply[1]]),
        partition=partition,
    )
