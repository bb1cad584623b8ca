"""Doctor commands: list keys (survey), check that keys agree (examine), check the counts of queues (recount)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.store.commands.command import Argument, Command

KEYS_PER_STEP = 500
ENTRIES_PER_STEP = 500  # read by one call, approximately: a page of an index is not split
JOBS_PER_STEP = 250  # counted by one call


def survey(cursor: str, partition: int) -> Command[tuple[str, list[bytes]]]:
    return Command(
        "survey", [cursor, KEYS_PER_STEP], lambda reply: (reply[0].decode(), list(reply[1])), partition=partition
    )


class FindingRow(NamedTuple):
    """One finding. Its example starts with its kind: j(ob), q(ueue), l(ane), k(ey)."""

    code: str
    example: bytes
    is_repaired: bool


class ExamineStep(NamedTuple):
    jobs: int
    rows: list[FindingRow]
    left: list[tuple[bytes, bytes]]  # key and cursor: where to continue


def _read_examine(reply: Any) -> ExamineStep:
    jobs, rows, left = reply
    found = [FindingRow(code.decode(), example, bool(done)) for code, example, done in _groups(rows, 3)]
    return ExamineStep(jobs, found, [(name, cursor) for name, cursor in _groups(left, 2)])


def _groups(flat: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    return [tuple(flat[at : at + size]) for at in range(0, len(flat), size)]


def examine(keys: Sequence[tuple[bytes, bytes]], repair: bool, partition: int) -> Command[ExamineStep]:
    args: list[Argument] = [int(repair), ENTRIES_PER_STEP]
    for name, cursor in keys:
        args += (name, cursor)
    return Command("examine", args, _read_examine, partition=partition)


class RecountStep(NamedTuple):
    """Progress of a recount, or its outcome."""

    status: str  # more, changed, unreadable, done
    position: tuple[Argument, ...] = ()  # where to continue
    are_bytes_off: bool = False
    are_consequences_off: bool = False
    is_repaired: bool = False


START: tuple[Argument, ...] = (1, 0, 0, 0, 0, "")


def _read_recount(reply: Any) -> RecountStep:
    status = reply[0].decode()
    if status == "done":
        bytes_off, history_off, consequences_off, is_repaired = reply[1:]
        return RecountStep(
            status,
            are_bytes_off=bool(bytes_off or history_off),
            are_consequences_off=bool(consequences_off),
            is_repaired=bool(is_repaired),
        )
    return RecountStep(status, tuple(reply[1:]))


def recount(queue: str, position: tuple[Argument, ...], repair: bool, partition: int) -> Command[RecountStep]:
    return Command("recount", [int(repair), queue, JOBS_PER_STEP, *position], _read_recount, partition=partition)
