"""Numbers of jobs: draw, number, numbered; and who holds a unique key."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import Refusal

from .command import ItemsCall, answering


def reserve_numbers(count: int, partition: int) -> ItemsCall[int]:
    return ItemsCall("reserve_numbers", (), [(count,)], int, partition=partition)


def number(ids: Sequence[bytes], partition: int) -> ItemsCall[int | Refusal]:
    return ItemsCall("number", (), [(job_id,) for job_id in ids], answering(int), partition=partition)


def numbered(numbers: Sequence[int], partition: int) -> ItemsCall[bytes | Refusal]:
    return ItemsCall("numbered", (), [(one,) for one in numbers], answering(bytes), partition=partition)


def holder(queue: str, keys: Sequence[str], partition: int) -> ItemsCall[bytes | Refusal]:
    return ItemsCall("holder", (), [(queue, key) for key in keys], answering(bytes), partition=partition)
