"""Bulk actions: run in steps, shown, stopped, and continued after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar, cast

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.background.bulk_runner import LEASE_MS, BulkRunner
from windlass.core.bulk_action import QUEUE, Action, ActionStatus
from windlass.core.errors import BadInput, UnknownJob
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Listing, Take
from windlass.service import Service
from windlass.store.operation import Flow

T = TypeVar("T")
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def service(engine: EngineProcess) -> AsyncIterator[Service]:
    store = make_store(engine)
    await store.open()
    yield Service(store)
    await store.close()


async def fail(service: Service, count: int, queue: str = "q", name: str = "n", error: bytes = b'"gone"') -> None:
    await service.enqueue([NewJob(queue=queue, name=name) for _ in range(count)])
    taken = await service.take(Take(queues=(queue,), most=count))
    assert len(taken.jobs) == count
    await service.fail([Fail(id=job.id, token=job.lease_token, error=Blob(error)) for job in taken.jobs])


async def counts(service: Service, queue: str = "q") -> tuple[int, int, int]:
    (stats,) = await service.stats([queue])
    return stats.queued, stats.failed, stats.cancelled


def retry(**listing: object) -> Action:
    return Action(verb="retry", listing=Listing(**({"state": "failed"} | listing)), asked_by="ann")  # type: ignore[arg-type]


async def done(service: Service, action: Action, step: int = 3) -> ActionStatus:
    asked = await service.act(action)
    assert (asked.state, asked.looked_at, asked.asked_by) == ("queued", 0, action.asked_by)
    assert await BulkRunner(step=step).run_once(service) == 1
    return await service.action(asked.id)


async def test_all_that_match_are_retried_in_steps(service: Service) -> None:
    await fail(service, 10)
    await fail(service, 2, name="other")
    await fail(service, 2, queue="r")
    found = await done(service, retry(queue="q", name="n"))
    assert (found.state, found.done, found.looked_at, found.total, found.refused) == ("finished", 10, 12, 12, 0)
    assert await counts(service) == (10, 2, 0)
    assert await counts(service, "r") == (0, 2, 0)
    found = await done(service, retry())
    assert (found.done, found.total) == (4, 4)
    assert (await service.actions())[0].id == found.id


@pytest.mark.parametrize("queue", ["", "q"])
@pytest.mark.parametrize("step", [1, 3])
async def test_a_retry_takes_causes_and_leaves_consequences_alone(service: Service, queue: str, step: int) -> None:
    first, last = service.store.new_ids(["q", "q"])
    await service.enqueue([NewJob(queue="q", name="a", id=first), NewJob(queue="q", name="b", id=last, after=(first,))])
    [job] = (await service.take(Take(queues=("q",)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token)])
    assert await counts(service) == (0, 2, 0)
    found = await done(service, retry(queue=queue), step=step)
    assert (found.state, found.done, found.refused) == ("finished", 1, 0)
    assert [timeline.job.state.label for timeline in await service.job([first, last])] == ["queued", "waiting"]  # type: ignore[union-attr]


async def test_an_error_can_choose(service: Service) -> None:
    await fail(service, 3, error=b'"no room"')
    await fail(service, 4, error=b'"order 5 is gone"')
    (group, _) = (await service.failures()).groups
    found = await done(service, retry(queue="q", error_shape=group.error_shape))
    assert (found.done, await counts(service)) == (4, (4, 3, 0))


async def test_cancel_delete_and_requeue(service: Service) -> None:
    await service.enqueue([NewJob(queue="q", name="n", lane=lane) for lane in ("", "", "a", "b")])
    cancel = Action(verb="cancel", listing=Listing(queue="q", state="queued"), reason="no longer")
    assert (await done(service, cancel, step=1)).done == 4
    assert await counts(service) == (0, 0, 4)
    requeue = Action(verb="requeue", listing=Listing(queue="q", state="cancelled"))
    assert (await done(service, requeue)).done == 4
    assert await counts(service) == (4, 0, 0)
    delete = Action(verb="delete", listing=Listing(state="queued"))
    assert (await done(service, delete)).done == 4
    assert await counts(service) == (0, 0, 0)


async def test_what_comes_into_the_list_later_is_left_alone(service: Service) -> None:
    await fail(service, 2)
    asked = await service.act(retry(queue="q"))
    service.store.clock_offset_ms += 1_000
    await fail(service, 3)
    await BulkRunner().run_once(service)
    assert (await service.action(asked.id)).done == 2
    assert await counts(service) == (2, 3, 0)


async def test_refusals_are_counted_by_their_code(service: Service) -> None:
    await service.enqueue([NewJob(queue="q", name="n", tags=("t",)) for _ in range(3)])
    await service.take(Take(queues=("q",), most=1))
    found = await done(service, Action(verb="delete", listing=Listing(tag="t")))
    assert (found.done, found.refused, found.refusals) == (2, 1, {"wrong_state": 1})


async def test_an_action_is_called_off_between_steps(service: Service) -> None:
    await fail(service, 9)
    asked = await service.act(retry(queue="q"))
    runner = BulkRunner(step=2)
    run_step = runner._run_step

    async def and_cancel(*args: object) -> object:
        carried = await run_step(*args)  # type: ignore[arg-type]
        await service.cancel([asked.id])
        return carried

    runner._run_step = and_cancel  # type: ignore[method-assign,assignment]
    await runner.run_once(service)
    found = await service.action(asked.id)
    assert (found.state, found.done) == ("cancelled", 2)
    assert await counts(service) == (2, 7, 0)
    waiting = await service.act(retry(queue="q"))
    await service.cancel([waiting.id]).one()
    assert (await service.action(waiting.id)).state == "cancelled"


async def test_another_process_goes_on_where_one_died(service: Service) -> None:
    await fail(service, 9)
    asked = await service.act(retry(queue="q"))
    runner = BulkRunner(step=2)
    note, notes = runner._store_progress, 0

    async def and_die(*args: object) -> bool:
        nonlocal notes
        notes += 1
        if notes == 3:
            raise RuntimeError("killed")
        return await note(*args)  # type: ignore[arg-type]

    runner._store_progress = and_die  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        await runner.run_once(service)
    assert (await service.action(asked.id)).done == 4, "two steps were noted, the third was not"
    assert await BulkRunner().run_once(service) == 0, "it is leased"
    service.store.clock_offset_ms += LEASE_MS + 1_000
    await service.recover()
    assert await BulkRunner().run_once(service) == 1
    found = await service.action(asked.id)
    assert (found.state, found.done, found.looked_at) == ("finished", 7, 7), "what the third step did is not seen again"
    assert await counts(service) == (9, 0, 0)


async def test_one_that_is_stopped_gives_its_action_back_at_once(service: Service) -> None:
    await fail(service, 3)
    asked = await service.act(retry(queue="q"))
    runner, begun = BulkRunner(step=1), asyncio.Event()

    async def and_wait(*_args: object) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return True

    runner._store_progress = and_wait  # type: ignore[method-assign]
    work = asyncio.create_task(runner.run(service))
    await begun.wait()
    work.cancel()
    await asyncio.wait({work})
    assert (await service.action(asked.id)).state == "queued"
    assert await BulkRunner().run_once(service) == 1
    assert await counts(service) == (3, 0, 0)


async def test_what_carries_actions_is_spared(service: Service) -> None:
    asked = await service.act(Action(verb="cancel", listing=Listing(state="queued")))
    found = await done(service, Action(verb="cancel", listing=Listing(state="queued")))
    assert found.id != asked.id
    assert {one.state for one in await service.actions()} == {"queued", "finished"}


async def test_a_job_that_is_no_action_fails(service: Service) -> None:
    made = await service.enqueue([NewJob(queue=QUEUE, name="retry")]).one()
    assert await BulkRunner().run_once(service) == 1
    assert (await service.job([made.id]).one()).job.state.label == "failed"
    assert await service.actions() == []
    with pytest.raises(UnknownJob):
        await service.action(made.id)


@pytest.mark.parametrize(
    ("verb", "state"), [("retry", "queued"), ("requeue", "queued"), ("cancel", "failed"), ("delete", "running")]
)
async def test_a_verb_needs_a_list_in_which_it_can_do_something(service: Service, verb: str, state: str) -> None:
    with pytest.raises(BadInput, match="the state of the listing must be one of"):
        service.act(Action(verb=verb, listing=Listing(queue="q", state=state)))  # type: ignore[arg-type]


@pytest.mark.parametrize("pages", [1, 2, 3, 4])
async def test_an_action_that_is_carried_out_while_it_is_listed_is_listed_once(service: Service, pages: int) -> None:
    asked = await service.act(retry(queue="q"))
    flow = service._actions_flow()
    question = next(flow)
    for _ in range(pages):
        question = flow.send(await service.store.run(_ask(question)))
    assert await BulkRunner().run_once(service) == 1
    listed = await service.store.run(_go_on(flow, question))
    assert [found.id for found in listed] == [asked.id]


def _ask(question: object) -> Flow[object]:
    return (yield question)


def _go_on(flow: Flow[T], question: object) -> Flow[T]:
    """The rest of a flow whose next question is known."""
    while True:
        answer = yield question
        try:
            question = flow.send(answer)
        except StopIteration as end:
            return cast(T, end.value)


@pytest.mark.parametrize("step", [1, 2, 50])
async def test_jobs_that_failed_because_of_another_job_follow_its_retry(service: Service, step: int) -> None:
    """Whatever page their cause is on."""
    for _ in range(3):
        ids = service.store.new_ids(["q"] * 4)
        chain = [NewJob(queue="q", name="n", id=id_, after=tuple(ids[:at][-1:])) for at, id_ in enumerate(ids)]
        await service.enqueue(chain)
    taken = (await service.take(Take(queues=("q",), most=3))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token) for job in taken])
    found = await done(service, retry(queue="q"), step)
    assert (found.done, found.refused, found.refusals) == (3, 0, {})
    (stats,) = await service.stats(["q"])
    assert (stats.queued, stats.waiting, stats.failed) == (3, 9, 0)


async def test_a_retry_that_misses_the_cause_skips_its_consequences(service: Service) -> None:
    first, second = service.store.new_ids(["q", "q"])
    await service.enqueue(
        [NewJob(queue="q", name="n", id=first), NewJob(queue="q", name="w", id=second, after=(first,))]
    )
    (job,) = (await service.take(Take(queues=("q",)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token)])
    found = await done(service, retry(queue="q", name="w"))
    assert (found.done, found.skipped, found.refused) == (0, 1, 0)
    assert await counts(service) == (0, 2, 0)
