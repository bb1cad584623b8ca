"""Commands for job numbers (reserve_numbers, number, numbered) and for the holder of a unique key."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Refusal

from .command import BatchCommand, reply_parser


def reserve_numbers(count: int, partition: int) -> BatchCommand[int]:
    return BatchCommand("reserve_numbers", (), [(count,)], int, partition=partition)


def number(ids: Sequence[bytes], partition: int) -> BatchCommand[int | Refusal]:
    return BatchCommand("number", (), [(job_id,) for job_id in ids], reply_parser(int), partition=partition)


def numbered(numbers: Sequence[int], partition: int) -> BatchCommand[bytes | Refusal]:
    return BatchCommand("numbered", (), [(number,) for number in numbers], reply_parser(bytes), partition=partition)


def holder(queue: str, keys: Sequence[str], partition: int) -> BatchCommand[bytes | Refusal]:
    return BatchCommand("holder", (), [(queue, key) for key in keys], reply_parser(bytes), partition=partition)
