"""Children of running jobs: their start, the parent's view, crashes and failures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from windlass import Backoff, Context, JobCancelled, JobFailed, Windlass, group
from windlass.core.errors import BadInput, QueueFull
from windlass.core.operations import Listing

pytestmark = pytest.mark.anyio
SECONDS = 20
AT_ONCE = Backoff(tries=3, base=0)


@dataclass
class Point:
    number: int


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def tasks(app: Windlass, ran: list[Any]) -> Any:
    @app.task
    async def square(number: int) -> int:
        ran.append(number)
        return number * number

    @app.task(retry=1)
    async def fail(word: str) -> int:
        raise ValueError(word)

    @app.task(queue="idle")  # no worker serves this queue
    async def idle() -> None: ...

    return SimpleNamespace(**app.tasks)


async def test_a_parent_runs_again_when_its_children_have_ended(
    app: Windlass, tasks: Any, ran: list[Any], working: Any
) -> None:
    @app.task
    async def parent(count: int, ctx: Context) -> int:
        if not ctx.is_resumed:
            for at in range(count):
                await ctx.aspawn(tasks.square.call(at))
            ran.append("spawned")
            return -1
        return sum(child.result for child in ctx.children)

    async with working(app):
        assert await (await parent.aenqueue(4)).aresult(SECONDS) == 14
    assert ran[0] == "spawned"
    assert sorted(ran[1:]) == [0, 1, 2, 3]


async def test_the_same_in_a_thread(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    def parent(ctx: Context) -> list[int]:
        if not ctx.is_resumed:
            ctx.spawn(tasks.square.call(2))
            ctx.spawn_many([tasks.square.call(3), tasks.square.call(4)])
            return []
        return sorted(child.result for child in ctx.children)

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == [4, 9, 16]


async def test_a_second_round_of_children(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def parent(ctx: Context) -> list[int]:
        found = sorted(child.result for child in ctx.children)
        if not found:
            await ctx.aspawn(tasks.square.call(2))
        elif found == [4]:
            await ctx.aspawn_many(tasks.square.call(number) for number in (found[0], 5))
        return found

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == [16, 25]


async def test_more_children_than_a_page(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def parent(ctx: Context) -> int:
        if not ctx.is_resumed:
            await ctx.aspawn_many(tasks.square.call(1) for _ in range(450))
        return len([child for child in ctx.children if child.is_ok])

    async with working(app, concurrency=64):
        assert await (await parent.aenqueue()).aresult(SECONDS) == 450


async def test_children_that_are_chains_and_groups(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def add(numbers: list[int], more: int) -> int:
        return sum(numbers) + more

    @app.task
    async def parent(ctx: Context) -> dict[str, int]:
        if not ctx.is_resumed:
            await ctx.aspawn(group(tasks.square.call(2), tasks.square.call(3)).then(add, 100))
        return {child.name: child.result for child in ctx.children}

    async with working(app):
        found = await (await parent.aenqueue()).aresult(SECONDS)
    assert found["add"] == 113
    assert set(found) == {"add", "square"}


async def test_a_crash_after_spawning_spawns_again_unless_there_is_a_key(
    app: Windlass, tasks: Any, ran: list[Any], working: Any
) -> None:
    @app.task(retry=AT_ONCE)
    async def parent(ctx: Context, has_key: bool) -> int:
        if ctx.is_resumed:
            return len(ctx.children)
        assert ctx.children == []
        first = await ctx.aspawn(tasks.square.call(1), key="first" if has_key else "")
        many = {"a": tasks.square.call(2), "b": tasks.square.call(ctx.attempt)}
        await ctx.aspawn_many(many if has_key else many.values())
        ran.append(first.status)
        if ctx.attempt < 3:
            raise OSError
        return 0

    async with working(app):
        assert await (await parent.aenqueue(has_key=True)).aresult(SECONDS) == 3
        assert ran[:3] == ["waiting", "existing", "existing"]
        assert sorted(ran[3:]) == [1, 1, 2]  # the arguments of `b` from the first attempt stay
        assert await (await parent.aenqueue(has_key=False)).aresult(SECONDS) == 9


async def test_a_key_belongs_to_its_parent(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    def parent(number: int, ctx: Context) -> list[int]:
        if not ctx.is_resumed:
            ctx.spawn(tasks.square.call(number), key="k")
            ctx.spawn(tasks.square.call(number), key="k")
        return [child.result for child in ctx.children]

    async with working(app):
        handles = await app.aenqueue_many(parent.call(number) for number in (2, 3))  # created in the same millisecond
        assert [await handle.aresult(SECONDS) for handle in handles] == [[4], [9]]


@pytest.mark.parametrize("policy", ["collect", "ignore", "fail"])
async def test_a_child_that_fails(app: Windlass, tasks: Any, working: Any, policy: Any) -> None:
    @app.task(on_failure=policy, retry=1)
    async def parent(ctx: Context) -> list[str]:
        if not ctx.is_resumed:
            await ctx.aspawn_many([tasks.fail.call("no"), tasks.square.call(2)])
        return sorted(f"{child.state} {child.result} {child.error.get('message')}" for child in ctx.children)

    async with working(app):
        handle = await parent.aenqueue()
        if policy == "fail":
            with pytest.raises(JobFailed) as told:
                await handle.aresult(SECONDS)
            assert told.value.reason == "member_failed"
        else:
            assert await handle.aresult(SECONDS) == ["failed None no", "finished 4 None"]


async def test_a_child_that_is_cancelled(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def parent(ctx: Context) -> list[str]:
        if not ctx.is_resumed:
            child = await ctx.aspawn(tasks.idle.call())
            ctx.emit(child.id)
        return [child.state for child in ctx.children]

    async with working(app, queues=["default"]):
        handle = await parent.aenqueue()
        async for event in handle.events():
            if event.kind == "waiting":
                break
        service = await app.aservice()
        (child,) = (await service.list_members(handle.id_bytes)).members
        await service.cancel([child.job.id])
        assert await handle.aresult(SECONDS) == ["cancelled"]


async def test_the_results_of_children_have_their_type(app: Windlass, working: Any) -> None:
    @app.task
    async def point(number: int) -> Point:
        return Point(number)

    @app.task
    async def parent(ctx: Context) -> int:
        if not ctx.is_resumed:
            await ctx.aspawn(point.call(3))
        return sum(child.result.number for child in ctx.children)

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == 3


async def test_the_end_of_a_parent_reaches_its_children(
    app: Windlass, tasks: Any, ran: list[Any], working: Any
) -> None:
    @app.task(retry=1)
    async def fails(ctx: Context) -> None:
        ran.append((await ctx.aspawn(tasks.square.call(2))).id)
        raise ValueError

    @app.task
    async def waits(ctx: Context) -> None:
        ran.append((await ctx.aspawn(tasks.idle.call())).id)

    async with working(app, queues=["default"]):
        with pytest.raises(JobFailed):
            await (await fails.aenqueue()).aresult(SECONDS)
        handle = await waits.aenqueue()
        async for event in handle.events():
            if event.kind == "waiting":
                break
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)
        for child in ran:
            with pytest.raises(JobCancelled):
                await app.job(child).aresult(SECONDS)
    assert len(ran) == 2


async def test_a_step_of_a_chain_that_spawns_keeps_its_arguments(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def parent(number: int, more: int, ctx: Context) -> list[int]:
        if not ctx.is_resumed:
            await ctx.aspawn(tasks.square.call(number))
        return [number, more, *(child.result for child in ctx.children)]

    async with working(app):
        unkept = tasks.square.using(keep_result=0)  # so that only the engine's member record has the result
        handle = await unkept.call(2).then(parent, 7).aenqueue()
        assert await handle.aresult(SECONDS) == [4, 7, 16]


async def test_what_cannot_be_spawned(app: Windlass, tasks: Any, working: Any) -> None:
    app.service.configure("small", {"max_length": 1}).wait()

    @app.task(retry=1)
    async def parent(ctx: Context) -> list[str]:
        said = []
        small = tasks.square.using(queue="small")
        for wrong in (tasks.square, tasks.square.using(unique=True).call(1), group([small.call(1), small.call(2)])):
            with pytest.raises((BadInput, QueueFull)) as refused:
                await ctx.aspawn(wrong)
            said.append(type(refused.value).__name__)
        child = await ctx.aspawn(tasks.square.call(1)) if not ctx.is_resumed else None
        if child:
            with pytest.raises(BadInput, match=r"ctx\.children"):
                await child
        return said

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == ["BadInput", "BadInput", "QueueFull"]
        service = await app.aservice()
        assert (await service.jobs(Listing(queue="small", state="waiting"))).jobs == []


async def test_a_task_that_is_called_inline_has_no_children(app: Windlass, tasks: Any) -> None:
    @app.task
    def parent(ctx: Context) -> None:
        ctx.spawn(tasks.square.call(1))

    with pytest.raises(BadInput, match="inline"):
        parent()
    await asyncio.sleep(0)
