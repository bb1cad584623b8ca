"""Resume of flows through their handles: the causes run again, and what failed because of them follows."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from windlass import JobCancelled, JobFailed, Windlass, flow, group

pytestmark = pytest.mark.anyio
SECONDS = 20


@pytest.fixture
def ran() -> list[int]:
    return []


@pytest.fixture
def tasks(app: Windlass, ran: list[int]) -> Any:
    """Tasks of which `visit` fails for pages above `tasks.limit`."""
    found = SimpleNamespace(limit=0)

    @app.task
    async def number(value: int) -> int:
        ran.append(value)
        return value

    @app.task(retry=1)
    async def visit(page: int) -> int:
        if page > found.limit:
            raise ConnectionError(f"page {page}")
        return page

    @app.task
    async def add(first: int, second: int) -> int:
        return first + second

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(queue="idle")  # no worker serves this queue
    async def idle() -> int:
        return 0

    found.__dict__.update(app.tasks)
    return found


async def test_a_chain_goes_on_with_the_failed_step(app: Windlass, tasks: Any, ran: list[int], working: Any) -> None:
    chain = tasks.number.call(1).then(tasks.visit).then(tasks.add, 1).then(tasks.add, 1)
    async with working(app):
        handle = await chain.aenqueue()
        with pytest.raises(JobFailed, match="page 1"):
            await handle.aresult(SECONDS)
        tasks.limit = 5
        resumed = await handle.aresume()
        assert resumed.retried == [handle.steps[1].id_bytes]
        assert resumed.refused == {}
        assert await handle.aresult(SECONDS) == 3
    assert ran == [1]


async def test_a_resume_without_an_event_loop(app: Windlass, tasks: Any, working: Any) -> None:
    def whole() -> Any:
        handle = group(tasks.visit.call(page) for page in (0, 1, 2)).then(tasks.total).then(tasks.add, 1).enqueue()
        with pytest.raises(JobFailed, match="page"):
            handle.result(SECONDS)
        for step in handle.steps[:3]:
            with contextlib.suppress(JobFailed):
                step.result(SECONDS)
        tasks.limit = 5
        assert len(handle.resume().retried) == 2
        return handle.result(SECONDS)

    async with working(app):
        assert await asyncio.to_thread(whole) == 4


async def test_a_group_without_a_task_after_it(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await group(tasks.visit.call(0), tasks.visit.call(1)).aenqueue()
        with pytest.raises(JobFailed, match="page 1"):
            await handle.aresult(SECONDS)
        tasks.limit = 5
        await handle.aresume()
        assert await handle.aresult(SECONDS) == [0, 1]


async def test_a_named_flow_with_several_last_steps(app: Windlass, tasks: Any, ran: list[int], working: Any) -> None:
    made = flow("shop")
    number = made.step("number", tasks.number.call(3))
    visited = made.step("visited", tasks.visit, number)
    pages = made.step("pages", group(tasks.visit.call(0), tasks.visit.call(0)))
    made.step("sum", tasks.add, number, visited).after(pages)
    made.step("order", tasks.number.call(9)).after(visited)
    made.step("other", tasks.number.call(8))
    async with working(app):
        handle = await made.aenqueue()
        with pytest.raises(JobFailed, match="page 3"):
            await handle.aresult(SECONDS)
        assert await handle.steps["pages"].aresult(SECONDS) == [0, 0]
        assert await handle.steps["other"].aresult(SECONDS) == 8
        tasks.limit = 5
        assert (await handle.aresume()).retried == [handle.steps["visited"].id_bytes]
        assert await handle.aresult(SECONDS) == {"sum": 6, "order": 9, "other": 8}
    assert sorted(ran) == [3, 8, 9]


async def test_a_cancelled_step_is_a_cause_too(app: Windlass, tasks: Any, working: Any) -> None:
    made = flow("idle")
    idle = made.step("idle", tasks.idle.call())
    made.step("next", tasks.number, idle)
    async with working(app, queues=["default"]):
        handle = await made.aenqueue()
        await handle.steps["idle"].acancel()
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)
        assert (await handle.aresume()).retried == [handle.steps["idle"].id_bytes]
        assert await handle.steps["next"].astate() == "waiting"


async def test_a_flow_without_failures_has_nothing_to_resume(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await tasks.number.call(1).then(tasks.add, 1).aenqueue()
        assert await handle.aresult(SECONDS) == 2
        assert (await handle.aresume()).retried == []
