"""Children of durable calls: created once, awaited by a suspended parent, read once."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import Backoff, ChildFailed, Context, JobFailed, SyncContext, Testing, Windlass
from windlass.core.errors import BadInput, CrossPartition

AT_ONCE = Backoff(tries=3, base=0)


@pytest.fixture
def square(tested: Windlass, ran: list[Any]) -> Any:
    @tested.task
    async def square(number: int) -> int:
        ran.append(number)
        return number * number

    return square


@pytest.fixture
def fail(tested: Windlass) -> Any:
    @tested.task(retry=1)
    async def fail(word: str) -> int:
        raise ValueError(word)

    return fail


@pytest.mark.parametrize("is_async", [True, False])
def test_results_of_children(tested: Windlass, t: Testing, ran: list[Any], square: Any, is_async: bool) -> None:
    if is_async:

        @tested.task(name="parent")
        async def parent(ctx: Context) -> list[Any]:
            first = await ctx.run(square.call(2))
            return [first, await ctx.gather(square.call(at) for at in range(3)), ctx.is_resumed, ctx.attempt]
    else:

        @tested.task(name="parent")
        def parent(ctx: SyncContext) -> list[Any]:
            first = ctx.run(square.call(2))
            return [first, ctx.gather(square.call(at) for at in range(3)), ctx.is_resumed, ctx.attempt]

    handle = parent.enqueue()
    summary = t.run_all(raises=True)
    assert (summary.suspended, summary.finished) == (2, 5)
    assert handle.result(0) == [4, [0, 1, 4], False, 1]
    assert sorted(ran) == [0, 1, 2, 2]
    assert [step.name for step in handle.steps().steps] == ["square", "gather"]


def test_no_calls_make_no_children(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def parent(ctx: Context) -> list[int]:
        return await ctx.gather()

    handle = parent.enqueue()
    assert t.run_all(raises=True).suspended == 0
    assert handle.result(0) == []


def test_results_are_the_same_in_later_attempts(tested: Windlass, t: Testing, ran: list[Any], square: Any) -> None:
    @tested.task(retry=AT_ONCE)
    async def parent(ctx: Context) -> int:
        found = await ctx.gather(square.call(2), square.call(3))
        if ctx.attempt == 1:
            raise ValueError("again")
        return sum(found)

    handle = parent.enqueue()
    t.run_all()
    assert (handle.result(0), sorted(ran)) == (13, [2, 3])


def test_the_first_failure_is_raised_and_cancels_the_rest(tested: Windlass, t: Testing, fail: Any) -> None:
    @tested.task
    async def idle(ctx: Context) -> int:
        await ctx.sleep("1d")
        return 1

    @tested.task
    async def parent(ctx: Context) -> list[Any]:
        try:
            await ctx.gather(idle.call(), fail.call("no"))
        except ChildFailed as error:
            return [error.name, error.type, error.message, error.state, error.child_id]
        return []

    handle = parent.enqueue()
    t.run_all()
    name, kind, message, state, child_id = handle.result(0)
    assert (name, kind, message, state) == ("fail", "ValueError", "no", "failed")
    assert tested.job(child_id).state == "failed"
    assert [job.state for job in t.jobs(name="idle")] in ([], ["cancelled"])


def test_all_children_can_run_to_their_end(tested: Windlass, t: Testing, square: Any, fail: Any) -> None:
    @tested.task
    async def parent(ctx: Context) -> list[str]:
        found = await ctx.gather(fail.call("no"), square.call(2), return_exceptions=True)
        return [type(value).__name__ for value in found]

    handle = parent.enqueue()
    t.run_all()
    assert handle.result(0) == ["ChildFailed", "int"]


def test_an_uncaught_failure_is_final(tested: Windlass, t: Testing, fail: Any) -> None:
    @tested.task(retry=AT_ONCE)
    async def parent(ctx: Context) -> None:
        await ctx.run(fail.call("no"))

    handle = parent.enqueue()
    t.run_all()
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert (told.value.type, told.value.attempts) == ("ChildFailed", 1)


def test_a_parent_waits_only_for_its_open_children(tested: Windlass, t: Testing, square: Any) -> None:
    @tested.task
    async def nap(ctx: Context) -> str:
        await ctx.sleep("30m")
        return "rested"

    @tested.task
    async def parent(ctx: Context) -> list[Any]:
        return [*await ctx.gather(nap.call(), square.call(3))]

    handle = parent.enqueue()
    t.run_all(raises=True)
    assert handle.state == "suspended"
    t.run_for("30m", raises=True)
    assert handle.result(0) == ["rested", 9]


def test_refused_children(tested: Windlass, t: Testing, square: Any) -> None:
    @tested.task(retry=1)
    async def parent(ctx: Context) -> None:
        with pytest.raises(BadInput, match="unique"):
            await ctx.run(square.using(unique=True).call(1))
        with pytest.raises(BadInput, match=r"ctx\.run\(task\.call"):
            await ctx.run(square)

    parent.enqueue()
    assert t.run_all(raises=True).finished == 1


def test_children_of_another_partition_are_refused_before_any_is_created(divided_store: Any, ran: list[Any]) -> None:
    app = Windlass()
    app.connect(divided_store(8))
    partitions = {app.store.partition_of_queue(f"q{at}"): f"q{at}" for at in range(40)}
    near, far = list(partitions.values())[:2]

    @app.task(queue=near)
    async def child() -> None: ...

    @app.task(queue=near, retry=1)
    def parent(ctx: SyncContext) -> None:
        try:
            ctx.gather(child.call(), child.using(queue=far).call())
        except CrossPartition as error:
            ran.append(error.code)

    import asyncio

    from windlass import Worker

    async def work() -> None:
        handle = await parent.aenqueue()
        await Worker(app, queues=[near], burst=True).run()
        stats = await (await app.aservice()).stats([near, far])
        assert [found.queued for found in stats] == [0, 0]
        assert ran == ["cross_partition"], handle
        await app.aclose()

    asyncio.run(work())


def test_a_retry_by_a_person_creates_the_children_of_a_failed_call_again(
    tested: Windlass, t: Testing, ran: list[Any], square: Any
) -> None:
    @tested.task(retry=1)
    async def flaky(number: int) -> int:
        ran.append("flaky")
        if ran.count("flaky") == 1:
            raise ValueError
        return number

    @tested.task
    async def parent(ctx: Context) -> list[int]:
        first = await ctx.run(square.call(2))
        return [first, await ctx.run(flaky.call(5))]

    handle = parent.enqueue()
    t.run_all()
    assert handle.state == "failed"
    tested.service.retry([handle.id_bytes]).one().wait()
    t.run_all(raises=True)
    assert handle.result(0) == [4, 5]
    assert ran == [2, "flaky", "flaky"]
