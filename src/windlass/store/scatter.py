"""Splits requests about many jobs by partition and into bounded calls, and puts the answers back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.errors import Refusal
from .calls.call import ITEMS_MAX, Flow, ItemsCall

R = TypeVar("R")
T = TypeVar("T")


def scatter(
    requests: Sequence[R],
    partition_of: Callable[[R], int],
    build: Callable[[Sequence[R], int], ItemsCall[T | Refusal]],
) -> Flow[list[T | Refusal]]:
    if not requests:
        return []
    first = partition_of(requests[0])
    if len(requests) <= ITEMS_MAX and all(partition_of(request) == first for request in requests):
        return (yield build(requests, first))  # type: ignore[no-any-return]
    positions: dict[int, list[int]] = {}
    for position, request in enumerate(requests):
        positions.setdefault(partition_of(request), []).append(position)
    steps = [
        (partition, places[start : start + ITEMS_MAX])
        for partition, places in positions.items()
        for start in range(0, len(places), ITEMS_MAX)
    ]
    calls: list[Any] = [build([requests[place] for place in places], partition) for partition, places in steps]
    replies = yield calls
    answers: list[Any] = [None] * len(requests)
    for (_partition, places), reply in zip(steps, replies, strict=True):
        for place, answer in zip(places, reply, strict=True):
            answers[place] = answer
    return answers
