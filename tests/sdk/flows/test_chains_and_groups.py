"""Chains and groups with a real worker: results, failure policies, all-or-none acceptance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.apps.flow_tasks import Sum, flow_tasks
from windlass import Backoff, Context, GroupHandle, JobCancelled, JobFailed, Windlass, group
from windlass.core.errors import BadInput, CrossPartition, MemberFailed, QueueFull, TooLarge
from windlass.core.operations import Listing
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SECONDS = 20  # until a test gives up


@pytest.fixture
def tasks(app: Windlass) -> Any:
    return flow_tasks(app)


# Chains


async def test_each_step_gets_the_result_of_the_one_before(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await tasks.double.call(4).then(tasks.add, 5).then(tasks.show, mark="=").aenqueue()
        assert await handle.aresult(SECONDS) == "=13"
        assert [step.status for step in (*handle.steps, handle)] == ["queued", "waiting", "waiting", "waiting"]
        assert [await step for step in handle.steps] == [8, Sum(13), "=13"]
        assert handle.id == handle.steps[-1].id


async def test_a_chain_is_enqueued_and_awaited_without_an_event_loop(app: Windlass, tasks: Any, working: Any) -> None:
    def whole() -> Any:
        return tasks.double.call(4).then(tasks.add, other=2).enqueue().result(SECONDS)

    async with working(app):
        assert await asyncio.to_thread(whole) == Sum(10)


async def test_a_step_that_returns_nothing_passes_none(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        assert await (await tasks.nothing.call().then(tasks.look).aenqueue()).aresult(SECONDS) == "None"


async def test_a_step_that_does_not_want_the_result(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        chain = tasks.double.call(1).and_then(tasks.double.call(7)).then(tasks.look)
        assert await (await chain.aenqueue()).aresult(SECONDS) == "14"


async def test_a_context_that_comes_first_is_not_the_first_argument(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    def with_context(ctx: Context, number: int, more: int = 0) -> str:
        return f"{ctx.attempt} {number} {more}"

    async with working(app):
        handle = await tasks.double.call(4).then(with_context, 3).aenqueue()
        assert await handle.aresult(SECONDS) == "1 8 3"


async def test_a_retry_of_a_step_gets_the_result_again(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task(retry=Backoff(tries=2, base=0))
    def flaky(number: int, ctx: Context) -> int:
        if ctx.attempt == 1:
            raise OSError(number)
        return number

    async with working(app):
        assert await (await tasks.double.call(2).then(flaky).aenqueue()).aresult(SECONDS) == 4


async def test_a_failure_is_told_as_that_of_the_step_that_failed(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await tasks.fail.call("no").then(tasks.add).then(tasks.show).aenqueue()
        with pytest.raises(JobFailed) as told:
            await handle.aresult(SECONDS)
        with pytest.raises(JobFailed, match="ValueError: no"):
            await asyncio.to_thread(handle.result, SECONDS)
        states = [(await step.ainfo()).state.label for step in handle.steps]
    assert (told.value.type, told.value.message, told.value.job_id) == ("ValueError", "no", handle.steps[0].id)
    assert states == ["failed"] * 3


async def test_a_result_of_the_wrong_type_fails_the_next_step(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await tasks.double.call(1).then(tasks.show).aenqueue()
        with pytest.raises(JobFailed) as told:
            await handle.aresult(SECONDS)
    assert told.value.reason == "bad_arguments"


async def test_a_cancelled_chain_runs_no_further(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app, queues=["default"]):
        handle = await tasks.idle.call().then(tasks.add).aenqueue()
        assert await handle.acancel() == "cancelled"
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)
        assert [(await step.ainfo()).state.label for step in handle.steps] == ["cancelled"] * 2


async def test_a_step_that_a_person_sends_on_again_after_the_failure(app: Windlass, tasks: Any, working: Any) -> None:
    """A retry of the failed step resumes the chain. A retry of its successor is refused before that."""
    good = []

    @app.task(retry=1)
    async def first() -> int:
        if not good:
            raise ValueError
        return 5

    async with working(app):
        handle = await first.call().then(tasks.add).aenqueue()
        service = await app.aservice()
        with pytest.raises(JobFailed):
            await handle.aresult(SECONDS)
        (early,) = await service.retry([handle.id_bytes])
        assert isinstance(early, MemberFailed)
        good.append(True)
        await service.retry([handle.steps[0].id_bytes])
        assert await handle.aresult(SECONDS) == Sum(6)


async def test_a_step_that_a_person_runs_without_the_step_before(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task(retry=1)
    async def first() -> int:
        raise ValueError

    async with working(app):
        handle = await first.call().then(tasks.add).aenqueue()
        service = await app.aservice()
        with pytest.raises(JobFailed):
            await handle.aresult(SECONDS)
        assert await service.requeue([handle.id_bytes]) == ["queued"]
        with pytest.raises(JobFailed, match="is missing"):
            await handle.aresult(SECONDS)


# Wrong flows


async def test_wrong_calls_are_refused_before_anything_is_enqueued(app: Windlass, tasks: Any) -> None:
    with pytest.raises(BadInput, match="unexpected keyword"):
        tasks.double.call(1).then(tasks.add, another=1)
    with pytest.raises(BadInput, match="and_then"):
        tasks.double.call(1).then(tasks.nothing)
    with pytest.raises(BadInput, match="then takes a task"):
        tasks.double.call(1).then(tasks.add.call(1))
    with pytest.raises(BadInput, match="and_then takes"):
        tasks.double.call(1).and_then(tasks.nothing)
    with pytest.raises(BadInput, match="at least one"):
        group()
    with pytest.raises(BadInput, match="made of calls"):
        group(tasks.double)
    with pytest.raises(BadInput, match="member of a group"):
        group(group(tasks.double.call(1)))
    with pytest.raises(BadInput, match="member of a group"):
        group(tasks.double.call(1).and_then(group(tasks.double.call(1))))
    with pytest.raises(BadInput, match="on_failure"):
        group(tasks.double.call(1), on_failure="never")
    with pytest.raises(TooLarge, match="1000 members"):
        group(tasks.double.call(at) for at in range(1001))


@pytest.mark.parametrize("options", [{"unique": True}, {"debounce": "1s"}, {"throttle": "1s"}, {"repeat": "HOURLY"}])
async def test_a_job_that_may_be_another_or_never_ends_is_no_step(app: Windlass, tasks: Any, options: Any) -> None:
    with pytest.raises(BadInput, match=f"option {next(iter(options))}"):
        tasks.double.using(**options).call(1).then(tasks.add).enqueue()
    with pytest.raises(BadInput, match=f"option {next(iter(options))}"):
        tasks.double.call(1).then(tasks.add.using(**options)).enqueue()


async def test_a_key_that_needs_the_result_is_refused(app: Windlass, tasks: Any) -> None:
    @app.task(tenant=lambda number: f"tenant {number}")
    async def fair(number: int) -> None: ...

    with pytest.raises(BadInput, match="known only after"):
        tasks.double.call(1).then(fair).enqueue()


async def test_a_flow_that_does_not_fit_is_refused_whole(app: Windlass, tasks: Any, working: Any) -> None:
    app.service.configure("small", {"max_length": 1}).wait()
    small = tasks.add.using(queue="small")
    async with working(app):
        with pytest.raises(QueueFull):
            await tasks.double.call(1).then(small).and_then(small.call(1)).aenqueue()
        with pytest.raises(QueueFull):
            await group(tasks.double.call(1), small.call(1), small.call(2)).aenqueue()
        service = await app.aservice()
        for state in ("queued", "waiting", "running", "finished", "failed", "cancelled"):
            assert (await service.jobs(Listing(queue="default", state=state))).jobs == []


async def test_queues_of_several_partitions_need_a_tag(divided_store: Callable[[int], Store], working: Any) -> None:
    app = Windlass()
    app.connect(divided_store(64))

    @app.task(queue="one")
    async def one() -> int:
        return 1

    @app.task(queue="two")
    async def two(number: int) -> int:
        return number + 1

    with pytest.raises(CrossPartition, match="tag"):
        await one.call().then(two).aenqueue()
    tagged = one.using(queue="{f}one").call().then(two.using(queue="{f}two"))
    async with working(app, queues=["{f}one", "{f}two"]):
        assert await (await tagged.aenqueue()).aresult(SECONDS) == 2


# Groups


async def test_the_results_of_a_group_in_the_order_given(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        handle = await group(tasks.double.call(at) for at in (3, 1, 2)).aenqueue()
        assert isinstance(handle, GroupHandle)
        assert await handle.aresult(SECONDS) == [6, 2, 4]
        assert await asyncio.to_thread(lambda: handle.progress) == 1.0
        assert [await member for member in handle.handles] == [6, 2, 4]
        assert await asyncio.to_thread(handle.result, SECONDS) == [6, 2, 4]
        again = await asyncio.to_thread(lambda: group(tasks.double.call(1), tasks.nothing.call()).enqueue())
        assert await again.aresult(SECONDS) == [2, None]


async def test_a_task_after_a_group_gets_the_list(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        flow = group(tasks.double.call(1), tasks.double.call(2)).then(tasks.total).then(tasks.add, 4)
        assert await (await flow.aenqueue()).aresult(SECONDS) == Sum(10)


async def test_groups_of_chains_and_chains_of_groups(app: Windlass, tasks: Any, working: Any) -> None:
    chains = [tasks.double.call(at).then(tasks.double) for at in range(3)]
    async with working(app):
        handle = await group(chains).aenqueue()
        assert await handle.aresult(SECONDS) == [0, 4, 8]
        assert len(handle.steps) == 6
        flow = group(chains).and_then(group(tasks.double.call(5), tasks.double.call(6))).then(tasks.total)
        assert await (await flow.aenqueue()).aresult(SECONDS) == 22
        last = await tasks.nothing.call().and_then(group(tasks.double.call(5), tasks.double.call(6))).aenqueue()
        assert await last.aresult(SECONDS) == [10, 12]


async def test_many_do_not_each_wait_for_each_of_many(app: Windlass, tasks: Any, service: Service) -> None:
    members = [tasks.double.call(at) for at in range(3)]
    handle = await group(members).and_then(group(members)).aenqueue()
    joining = {job.id for job in waiting(service) if job.name == "windlass.group"}
    (between,) = joining - {handle.id_bytes}  # a join of the first three, and a join of the whole
    awaited = service.list_members(handle.handles[0].id_bytes).wait().members
    assert [member.job.id for member in awaited] == [between]
    await app.aclose()


def waiting(service: Service) -> Any:
    return service.jobs(Listing(queue="default", state="waiting")).wait().jobs


async def test_a_group_of_a_thousand(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app, concurrency=64):
        flow = group(tasks.double.call(at) for at in range(1000)).then(tasks.total)
        assert await (await flow.aenqueue()).aresult(60) == 999_000


async def test_the_progress_of_a_group_and_its_cancel(app: Windlass, tasks: Any, working: Any) -> None:
    parts = [tasks.double.call(1), tasks.double.call(2), tasks.idle.call().then(tasks.double), tasks.idle.call()]
    async with working(app, queues=["default"]):
        handle = await group(parts).aenqueue()
        await handle.handles[0].aresult(SECONDS)
        await handle.handles[1].aresult(SECONDS)
        assert await asyncio.to_thread(lambda: handle.progress) == await handle.aprogress() == 0.5
        assert await asyncio.to_thread(handle.cancel) == "cancelled"
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)
        states = [(await step.ainfo()).state.label for step in handle.steps]
    assert states == ["finished", "finished", "cancelled", "cancelled", "cancelled"]


async def test_what_others_see_of_a_chain(app: Windlass, tasks: Any, service: Service) -> None:
    """Other clients see ordinary jobs, each after the other."""
    handle = await tasks.double.call(4).then(tasks.add, 5).aenqueue()
    job = service.job([handle.id_bytes]).one().wait().job
    assert (job.name, job.state.label, job.on_failure) == ("add", "waiting", "fail")
    await app.aclose()
