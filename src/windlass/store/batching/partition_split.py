"""Splits requests about many jobs by partition and into bounded calls, and puts the answers back in order."""

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
    if not requests:
        return []
    homes = [partition_of(request) for request in requests]
    if len(set(homes)) == 1:
        return (yield from run_in_parts(build(requests, homes[0])))
    places: dict[int, list[int]] = {}
    for place, home in enumerate(homes):
        places.setdefault(home, []).append(place)
    parts = [split_batch(build([requests[place] for place in mine], partition)) for partition, mine in places.items()]
    replies = iter((yield [call for calls in parts for call in calls]))  # the partitions side by side
    answers: list[Any] = [None] * len(requests)
    for mine, calls in zip(places.values(), parts, strict=True):
        found = [answer for _ in calls for answer in next(replies)]
        for place, answer in zip(mine, found, strict=True):
            answers[place] = answer
    return answers


def run_in_parts(call: BatchCommand[T | Refusal]) -> Flow[list[T | Refusal]]:
    """Of requests that are all at home in one partition."""
    parts = split_batch(call)
    if len(parts) == 1:
        return (yield parts[0])  # type: ignore[no-any-return]
    replies = yield parts
    return [answer for part in replies for answer in part]
