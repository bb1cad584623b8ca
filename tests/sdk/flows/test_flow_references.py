"""Place of each job in its flow: id, name of the flow, name of the step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sdk.apps.flow_tasks import flow_tasks
from windlass import Context, Windlass, flow, group
from windlass.core.ids import format_id, partition_of_id
from windlass.core.job import FlowRef, Job
from windlass.core.operations import Listing
from windlass.sdk.flows.labels import shorten
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SECONDS = 20


@pytest.fixture
def tasks(app: Windlass) -> Any:
    return flow_tasks(app)


def stored(service: Service) -> list[Job]:
    states = ("queued", "waiting", "running", "finished", "failed")
    listings = [Listing(queue=queue, state=state, most=500) for queue in service.queues().wait() for state in states]
    return [job for listing in listings for job in service.jobs(listing).wait().jobs]


def references(service: Service, flow_id: str) -> dict[str, FlowRef]:
    """Return the references of the flow's jobs, by the name of the job and its step."""
    jobs = [job for job in stored(service) if job.flow and format_id(job.flow.id) == flow_id]
    return {f"{job.name}/{job.flow.step}": job.flow for job in jobs if job.flow}


async def test_a_chain_is_a_flow_named_after_its_tasks(app: Windlass, tasks: Any, service: Service) -> None:
    handle = await tasks.double.call(1).then(tasks.add).then(tasks.show).aenqueue()
    found = references(service, handle.flow_id)
    assert found.keys() == {"double/", "add/", "show/"}
    assert {place.name for place in found.values()} == {"double → add → show"}
    await app.aclose()


async def test_the_jobs_of_a_group_and_its_join(app: Windlass, tasks: Any, service: Service) -> None:
    calls = [tasks.double.call(at) for at in range(3)]
    handle = await group(calls).aenqueue()
    found = references(service, handle.flow_id)
    assert found.keys() == {"double/", "windlass.group/all of 3"}
    assert {place.name for place in found.values()} == {"group of 3 × double"}
    followed = await group(*calls, tasks.nothing.call()).and_then(tasks.nothing.call()).aenqueue()
    assert {place.name for place in references(service, followed.flow_id).values()} == {
        "group of 4: double, nothing → nothing"
    }
    assert handle.flow_id != followed.flow_id
    await app.aclose()


async def test_the_name_of_a_flow_is_bounded(app: Windlass, tasks: Any, service: Service) -> None:
    chain = tasks.double.call(1)
    for _ in range(50):
        chain = chain.then(tasks.double)
    found = references(service, (await chain.aenqueue()).flow_id)
    (name,) = {place.name for place in found.values()}
    assert name.startswith("double → double → ")
    assert name.endswith("…")
    assert len(name) <= 100
    assert len(shorten("→" * 200).encode()) <= 255
    await app.aclose()


async def test_a_single_call_is_no_flow(app: Windlass, tasks: Any, service: Service) -> None:
    await tasks.double.aenqueue(1)
    assert [job.flow for job in stored(service)] == [None]
    await app.aclose()


async def test_steps_of_a_named_flow(app: Windlass, tasks: Any, service: Service) -> None:
    made = flow("checkout")
    pay = made.step("pay", tasks.double.call(1))
    made.step("pages", group(tasks.double.call(1), tasks.double.call(2)).then(tasks.total)).after(pay)
    made.step("all", group(tasks.nothing.call(), tasks.nothing.call()))
    handle = await made.aenqueue()
    found = references(service, handle.flow_id)
    assert {place.name for place in found.values()} == {"checkout"}
    assert found.keys() == {
        "double/pay",
        "double/pages: double",
        "total/pages",
        "nothing/all: nothing",
        "windlass.group/all",
        "windlass.group/all of 2",
    }
    again = await made.aenqueue()
    assert again.flow_id != handle.flow_id
    await app.aclose()


async def test_a_named_flow_of_one_step_is_a_flow(app: Windlass, tasks: Any, service: Service) -> None:
    made = flow("short")
    made.step("only", tasks.double.call(1))
    handle = await made.aenqueue()
    assert references(service, handle.flow_id) == {"double/only": FlowRef(_id_of(handle), "short", "only")}
    await app.aclose()


def _id_of(handle: Any) -> bytes:
    return bytes.fromhex(handle.flow_id.replace("-", ""))


async def test_the_id_is_in_the_partition_of_the_jobs(divided_store: Any) -> None:
    app = Windlass()
    store: Store = divided_store(64)
    app.connect(store)
    tasks = flow_tasks(app)
    handle = await tasks.double.using(queue="far away").call(1).then(tasks.add.using(queue="far away")).aenqueue()
    assert partition_of_id(_id_of(handle)) == store.partition_of_queue("far away")
    await app.aclose()


async def test_a_running_job_knows_its_flow(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task
    async def place(ctx: Context) -> list[str]:
        return [ctx.flow_id, ctx.flow_name, ctx.flow_step]

    made = flow("known")
    made.step("here", place.call())
    async with working(app):
        handle = await made.aenqueue()
        assert await handle.aresult(SECONDS) == {"here": [handle.flow_id, "known", "here"]}
        assert await (await place.aenqueue()).aresult(SECONDS) == ["", "", ""]
    assert await place() == ["", "", ""]


# Children


async def test_children_of_several_jobs_are_flows(app: Windlass, tasks: Any, service: Service, working: Any) -> None:
    @app.task
    async def parent(ctx: Context) -> list[list[str]]:
        if not ctx.is_resumed:
            await ctx.aspawn_many([tasks.double.call(1), tasks.double.call(2).then(tasks.add)])
            return []
        refs = [(child.name, child.job.flow) for child in ctx.children]
        return sorted([name, ref.name if ref else ""] for name, ref in refs)

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == [
            ["add", "double → add"],
            ["double", ""],
            ["double", "double → add"],
        ]


async def test_a_keyed_flow_of_children_is_spawned_once(app: Windlass, tasks: Any, working: Any) -> None:
    @app.task(retry=1)
    async def parent(ctx: Context) -> list[str]:
        if not ctx.is_resumed:
            for _ in range(2):
                handle = await ctx.aspawn(tasks.double.call(2).then(tasks.add), key="both")
            assert handle.status == "existing"
            return []
        return [format_id(child.job.flow.id) for child in ctx.children if child.job.flow]

    async with working(app):
        found = await (await parent.aenqueue()).aresult(SECONDS)
    assert len(found) == 2
    assert len(set(found)) == 1


async def test_the_first_flow_of_a_key_stays(app: Windlass, tasks: Any, working: Any) -> None:
    """A later call of the key may have more jobs, or none of its own beside a key that is new."""

    @app.task(retry=1)
    async def parent(ctx: Context) -> list[str]:
        if not ctx.is_resumed:
            first = tasks.double.call(2).then(tasks.add)
            await ctx.aspawn(first, key="first")
            again, second = await ctx.aspawn_many(
                {"first": first.then(tasks.show), "second": group(tasks.double.call(3), tasks.double.call(4))}
            )
            assert (again.status, second.status) == ("existing", "waiting")
            return []
        return sorted(f"{child.name} of {child.job.flow.name}" for child in ctx.children if child.job.flow)

    async with working(app):
        assert await (await parent.aenqueue()).aresult(SECONDS) == [
            "add of double → add",
            "double of double → add",
            "double of group of 2 × double",
            "double of group of 2 × double",
            "windlass.group of group of 2 × double",
        ]
