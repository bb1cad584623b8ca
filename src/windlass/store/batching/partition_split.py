"""Split of requests about many jobs by partition and size, with the answers back in the order of the requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from windlass.core.errors import Refusal
from windlass.store.commands.command import BatchCommand, Flow, split_batch

R = TypeVar("R")
T = TypeVar("T")


def split_by_partition(
    requests: Sequence[R],
    partition_of: Callable[[R], int],
    build: Callable[[Sequence[R], int], BatchCommand[T | Refusal]],
) -> Flow[list[T | Refusal]]:
    """Run the commands that `build` makes of the requests of each partition."""
    if not requests:
        return []
    partitions = [partition_of(request) for request in requests]
    if len(set(partitions)) == 1:
        return (yield from run_in_parts(build(requests, partitions[0])))
    indexes_by_partition: dict[int, list[int]] = {}
    for index, partition in enumerate(partitions):
        indexes_by_partition.setdefault(partition, []).append(index)
    parts = [
        split_batch(build([requests[index] for index in indexes], partition))
        for partition, indexes in indexes_by_partition.items()
    ]
    replies = iter((yield [command for commands in parts for command in commands]))  # all partitions concurrently
    answers: list[Any] = [None] * len(requests)
    for indexes, commands in zip(indexes_by_partition.values(), parts, strict=True):
        found = [answer for _ in commands for answer in next(replies)]
        for index, answer in zip(indexes, found, strict=True):
            answers[index] = answer
    return answers


def run_in_parts(command: BatchCommand[T | Refusal]) -> Flow[list[T | Refusal]]:
    """Run a command of one partition in as many parts as its size needs."""
    parts = split_batch(command)
    if len(parts) == 1:
        return (yield parts[0])  # type: ignore[no-any-return]
    replies = yield parts
    return [answer for part in replies for answer in part]
