"""Maintenance commands: promote, recover, time_out, clean, sweep, stop; and the wakeup that is passed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from windlass.core.errors import Refusal
from windlass.core.job import Job
from windlass.store.commands.command import Argument, BatchCommand, Command, decode_text, reply_parser
from windlass.store.records.record import unpack

QUEUES_PER_STEP = 50
JOBS_PER_STEP = 200


class MaintenanceStep(NamedTuple):
    """Outcome of one step of a loop. `next_at_ms` is None if nothing is due."""

    now_ms: int
    done: int
    next_at_ms: int | None


def merge_steps(steps: Sequence[MaintenanceStep]) -> MaintenanceStep:
    """Merge the steps of several partitions. Each has the clock of its node, so due times are compared as delays."""
    now_ms = steps[0].now_ms
    due_in_ms = [step.next_at_ms - step.now_ms for step in steps if step.next_at_ms is not None]
    return MaintenanceStep(now_ms, sum(step.done for step in steps), now_ms + min(due_in_ms) if due_in_ms else None)


def promote(partition: int) -> Command[MaintenanceStep]:
    return Command(
        "promote",
        [QUEUES_PER_STEP, JOBS_PER_STEP],
        lambda reply: MaintenanceStep(reply[0], reply[1], reply[2] or None),
        partition=partition,
    )


class RecoveryStep(NamedTuple):
    step: MaintenanceStep
    timed_out: list[Job]  # their attempts must be ended by `time_out`


def _read_recovered(reply: Any) -> RecoveryStep:
    now_ms, returned, next_at_ms, entries = reply
    timed_out = [unpack(entry, is_whole=False) for entry in entries]
    return RecoveryStep(MaintenanceStep(now_ms, returned, next_at_ms or None), timed_out)


def recover(silent_before_ms: int | None, look_again_ms: int, partition: int) -> Command[RecoveryStep]:
    """Run a step. Without `silent_before_ms`, workers that are silent now lose their jobs."""
    before = -1 if silent_before_ms is None else silent_before_ms
    args: list[Argument] = [QUEUES_PER_STEP, JOBS_PER_STEP, before, look_again_ms]
    return Command("recover", args, _read_recovered, partition=partition)


class TimeOut(NamedTuple):
    id: bytes
    token: int
    then: Literal["retry", "final"]
    delay_ms: int


def time_out(decisions: Sequence[TimeOut], partition: int) -> BatchCommand[str | Refusal]:
    return BatchCommand(
        "time_out", (), [tuple(decision) for decision in decisions], reply_parser(decode_text), partition=partition
    )


def clean(partition: int) -> Command[MaintenanceStep]:
    return Command(
        "clean",
        [JOBS_PER_STEP],
        lambda reply: MaintenanceStep(reply[0], reply[1] + reply[2], reply[3] or None),
        partition=partition,
    )


class SweepStep(NamedTuple):
    cursor: str
    to_relane: list[str]
    forgotten: int


def sweep(cursor: str, partition: int) -> Command[SweepStep]:
    return Command(
        "sweep",
        [cursor, QUEUES_PER_STEP],
        lambda reply: SweepStep(reply[0].decode(), [name.decode() for name in reply[1]], reply[2]),
        partition=partition,
    )


def pass_wakeup(wakeup_list: str, queue: str, filters: Sequence[str], partition: int) -> Command[bool]:
    args: list[Argument] = [wakeup_list, queue, *filters]
    return Command("pass_wakeup", args, bool, partition=partition)


def listen(wakeup_list: str, for_ms: int, partition: int) -> Command[tuple[int, int | None]]:
    return Command("listen", [wakeup_list, for_ms], lambda reply: (reply[0], reply[1] or None), partition=partition)


STOPPED_FOR_MS = 180_000  # unless renewed: the janitor checks each minute


def stop_migrating_partition(partition: int) -> Command[Any]:
    """Stop takes from a partition whose slot is migrating between two nodes, for some minutes."""
    return stop(STOPPED_FOR_MS, "its slot is migrating key by key", partition)


def require_format(number: int, version: str, partition: int) -> Command[int]:
    """Raise the format of a partition, unless it is as high already. The reply is the format in force."""
    return Command("require_format", [number, version], int, partition=partition)


def stop(for_ms: int, reason: str, partition: int) -> Command[bool]:
    """Stop takes from a partition for this long; 0 resumes them. The reply is whether that is new."""
    return Command("stop", [for_ms, reason], bool, partition=partition)
