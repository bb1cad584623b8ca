"""What the loops ask for: promote, recover, time_out, clean, sweep; and the ring that is passed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from windlass.core.errors import Refusal
from windlass.core.job import Job
from windlass.store.commands.command import Argument, Call, ItemsCall, answering, text
from windlass.store.records.record import unpack

QUEUES_PER_STEP = 50
JOBS_PER_STEP = 200


class Step(NamedTuple):
    """What one step of a loop did; `next_at_ms` is None when nothing is due that anybody knows of."""

    now_ms: int
    done: int
    next_at_ms: int | None


def together(steps: Sequence[Step]) -> Step:
    """Steps of several partitions as one. Each counts by the clock of its own node: what is next is a distance."""
    now_ms = steps[0].now_ms
    due_in_ms = [step.next_at_ms - step.now_ms for step in steps if step.next_at_ms is not None]
    return Step(now_ms, sum(step.done for step in steps), now_ms + min(due_in_ms) if due_in_ms else None)


def promote(partition: int) -> Call[Step]:
    return Call(
        "promote",
        [QUEUES_PER_STEP, JOBS_PER_STEP],
        lambda reply: Step(reply[0], reply[1], reply[2] or None),
        partition=partition,
    )


class Recovered(NamedTuple):
    step: Step
    timed_out: list[Job]  # attempts to be ended, by `time_out`


def _read_recovered(reply: Any) -> Recovered:
    now_ms, returned, next_at_ms, entries = reply
    timed_out = [unpack(entry, is_whole=False) for entry in entries]
    return Recovered(Step(now_ms, returned, next_at_ms or None), timed_out)


def recover(partition: int) -> Call[Recovered]:
    return Call("recover", [QUEUES_PER_STEP, JOBS_PER_STEP], _read_recovered, partition=partition)


class TimeOut(NamedTuple):
    id: bytes
    token: int
    then: Literal["retry", "final"]
    delay_ms: int


def time_out(decisions: Sequence[TimeOut], partition: int) -> ItemsCall[str | Refusal]:
    return ItemsCall("time_out", (), [tuple(one) for one in decisions], answering(text), partition=partition)


def clean(partition: int) -> Call[Step]:
    return Call(
        "clean",
        [JOBS_PER_STEP],
        lambda reply: Step(reply[0], reply[1] + reply[2], reply[3] or None),
        partition=partition,
    )


class Swept(NamedTuple):
    cursor: str
    to_relane: list[str]
    forgotten: int


def sweep(cursor: str, partition: int) -> Call[Swept]:
    return Call(
        "sweep",
        [cursor, QUEUES_PER_STEP],
        lambda reply: Swept(reply[0].decode(), [name.decode() for name in reply[1]], reply[2]),
        partition=partition,
    )


def pass_wakeup(bell: str, queue: str, filters: Sequence[str], partition: int) -> Call[bool]:
    args: list[Argument] = [bell, queue, *filters]
    return Call("pass_wakeup", args, bool, partition=partition)


def listen(bell: str, for_ms: int, partition: int) -> Call[tuple[int, int | None]]:
    return Call("listen", [bell, for_ms], lambda reply: (reply[0], reply[1] or None), partition=partition)


STOPPED_FOR_MS = 180_000  # unless renewed: the janitor looks each minute


def keep_off(partition: int) -> Call[Any]:
    """Takers keep off a partition that is torn between two nodes, for some minutes."""
    return stop(STOPPED_FOR_MS, "its slot is being moved key by key", partition)


def stop(for_ms: int, reason: str, partition: int) -> Call[bool]:
    """Nothing is taken from a partition for this long, 0: from now on again. Answers whether that is new."""
    return Call("stop", [for_ms, reason], bool, partition=partition)
