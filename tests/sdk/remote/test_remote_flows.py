"""Flows through a server: the same calls and answers as on the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from windlass import Windlass
from windlass.core.errors import AlreadyEnded, BadInput, FlowExists, FlowIncomplete, MemberFailed, UnknownFlow
from windlass.core.flow import Flow
from windlass.core.job import FlowRef, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.service import Service

pytestmark = pytest.mark.anyio
NO_FLOW = bytes.fromhex("01890a5dac9670008000b5c1d0b7a3f2")
STEPS = ("order", "pay", "ship")


@pytest.fixture
async def remote(served: str) -> AsyncIterator[Service]:
    app = Windlass(served)
    yield await app.aservice()
    await app.aclose()


async def put_chain(service: Service, name: str = "shop") -> FlowRef:
    flow_id, *ids = service.store.new_ids(["q"] * (len(STEPS) + 1))
    jobs = [
        NewJob(
            queue="q",
            name=f"do_{step}",
            id=ids[place],
            after=tuple(ids[:place][-1:]),
            flow=FlowRef(flow_id, name, step),
            result_ttl_ms=60_000,
        )
        for place, step in enumerate(STEPS)
    ]
    answers = await service.enqueue(jobs, whole=True)
    assert [answer.id for answer in answers] == ids  # type: ignore[union-attr]
    return FlowRef(flow_id, name)


async def end_next(service: Service, *, fails: bool = False) -> bytes:
    (job,) = (await service.take(Take(queues=("q",)))).jobs
    if fails:
        await service.fail([Fail(id=job.id, token=job.lease_token)]).one()
    else:
        await service.finish([Finish(job.id, job.lease_token)]).one()
    return job.id


def _without_time(flow: Flow) -> Flow:
    return msgspec.structs.replace(flow, now_ms=0)


async def test_a_flow_is_read_as_on_the_engine(remote: Service, engine_service: Service) -> None:
    made = await put_chain(remote)
    await end_next(engine_service)
    await end_next(engine_service, fails=True)
    found = await remote.flow(made.id)
    assert _without_time(found) == _without_time(await engine_service.flow(made.id))
    assert found.summary.state == "failed"
    assert [step.is_consequence for step in found.steps] == [False, False, True]
    ship = found.steps[2].job_id
    there, here = [await service.job([ship]).one() for service in (remote, engine_service)]
    assert (there.job.flow, there.job.is_consequence) == (FlowRef(made.id, "shop", "ship"), True)
    assert here.job.flow == there.job.flow


async def test_flows_are_listed_as_on_the_engine(remote: Service, engine_service: Service) -> None:
    for name in ("shop", "mail", "shop-2"):
        await put_chain(engine_service, name)
    await end_next(engine_service, fails=True)
    for options in ({}, {"name": "shop*"}, {"state": "failed"}, {"state": "running", "most": 1}):
        there, here = await remote.flows(**options), await engine_service.flows(**options)  # type: ignore[arg-type]
        assert there == here, options
    first = await remote.flows(most=2)
    second = await remote.flows(most=2, cursor=first.cursor)
    assert sorted(flow.name for flow in (*first.flows, *second.flows)) == ["mail", "shop", "shop-2"]


async def test_resume(remote: Service, engine_service: Service) -> None:
    made = await put_chain(remote)
    failed = await end_next(engine_service, fails=True)
    last = (await remote.flow(made.id)).steps[-1].job_id
    with pytest.raises(MemberFailed):
        await remote.retry([last]).one()
    answer = await remote.resume_flow(made.id)
    assert (answer.retried, answer.refused) == ([failed], {})
    for _ in STEPS:
        await end_next(engine_service)
    assert (await remote.flow(made.id)).summary.state == "finished"
    again = await remote.resume_flow(made.id)
    assert (again.retried, again.refused) == ([], {})


async def test_cancel(remote: Service, engine_service: Service) -> None:
    made = await put_chain(remote)
    assert await remote.cancel_flow(made.id) == "cancelled"
    assert (await engine_service.flow(made.id)).summary.state == "cancelled"
    with pytest.raises(AlreadyEnded):
        await remote.cancel_flow(made.id)


async def test_rerun(remote: Service, engine_service: Service) -> None:
    made = await put_chain(remote)
    for _ in STEPS:
        await end_next(engine_service)
    copy = await remote.rerun_flow(made.id)
    assert copy != made.id
    assert (await engine_service.flow(copy)).summary.state == "running"
    await engine_service.delete([(await remote.flow(made.id)).steps[0].job_id]).one()
    with pytest.raises(FlowIncomplete, match="Gone: order"):
        await remote.rerun_flow(made.id)


async def test_refusals(remote: Service) -> None:
    for operation in (remote.flow, remote.resume_flow, remote.cancel_flow, remote.rerun_flow):
        with pytest.raises(UnknownFlow):
            await operation(NO_FLOW)
        with pytest.raises(BadInput):
            operation(b"short")
    with pytest.raises(BadInput):
        remote.flows(state="odd")  # type: ignore[arg-type]
    made = await put_chain(remote)
    late = NewJob(queue="q", name="late", flow=made)
    assert [type(answer) for answer in await remote.enqueue([late], whole=True)] == [FlowExists]
    with pytest.raises(BadInput, match="enqueued together"):
        remote.enqueue([late])
