"""Limits of a task that count some of its calls only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Limit, Rate, Windlass
from windlass.core.errors import BadInput, TooLarge
from windlass.core.limits.condition import Condition

pytestmark = pytest.mark.anyio


async def test_a_limit_counts_the_calls_that_meet_its_conditions(app: Windlass, working: Any) -> None:
    running: set[int] = set()
    most = 0
    may_end = asyncio.Event()

    @app.task(limits=[Limit(1, where={"plan": "free", "size": {"gt": 10}})])
    async def convert(plan: str, size: int) -> None:
        nonlocal most
        if plan == "free" and size > 10:
            running.add(size)
            most = max(most, len(running))
            await asyncio.sleep(0.01)
            running.discard(size)
        elif size == 0:
            may_end.set()  # it runs beside the limited calls
        else:
            await may_end.wait()

    async with working(app):
        calls = [("free", 11), ("free", 12), ("free", 13), ("gold", 12), ("free", 10), ("free", 0)]
        for handle in await app.aenqueue_many(convert.call(plan, size) for plan, size in calls):
            await handle
        [state] = await (await app.aservice()).limits()
    assert most == 1
    assert state.limit.matches.payload == {"plan": "free", "size": Condition(gt=10)}


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"a": {}}, BadInput), ({"a": {"like": 1}}, BadInput), ({"a": [1]}, BadInput), ({"a": {"in": []}}, BadInput),
        ({"": 1}, BadInput), ({str(n): n for n in range(17)}, TooLarge),
    ],
)  # fmt: skip
def test_bad_conditions_are_refused_where_they_are_written(where: Any, error: type[Exception]) -> None:
    for make in (Limit, Rate):
        with pytest.raises(error):
            make(1, where=where)
