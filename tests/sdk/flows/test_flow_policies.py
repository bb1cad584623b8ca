"""Failure policies of flows: every policy with every end, natural or by an administrator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.sdk.apps.flow_tasks import flow_tasks
from windlass import JobCancelled, JobFailed, Outcome, Windlass, group

pytestmark = pytest.mark.anyio
SECONDS = 20  # until a test gives up


@pytest.fixture
def tasks(app: Windlass) -> Any:
    return flow_tasks(app)


FINE, FAILS, CANCELLED, DELETED = "fine", "fails", "cancelled", "deleted"


@pytest.mark.parametrize("happens", [FINE, FAILS, CANCELLED, DELETED])
@pytest.mark.parametrize("policy", ["fail", "collect", "ignore"])
async def test_every_policy_with_every_end(app: Windlass, tasks: Any, working: Any, policy: Any, happens: str) -> None:
    member = {FINE: tasks.double.call(2), FAILS: tasks.fail.call("no")}.get(happens, tasks.idle.call())
    follower = {"fail": tasks.total, "collect": tasks.outcomes, "ignore": tasks.known}[policy]
    async with working(app, queues=["default"]):
        both = [
            await group(tasks.double.call(1), member, on_failure=policy).aenqueue(),
            await group(tasks.double.call(1), member, on_failure=policy).then(follower).aenqueue(),
        ]
        service = await app.aservice()
        for handle in both:
            if happens == CANCELLED:
                await handle.steps[1].acancel()
            elif happens == DELETED:
                await service.delete([handle.steps[1].id_bytes]).one()
        answers = await asyncio.gather(*(handle.aresult(SECONDS) for handle in both), return_exceptions=True)
    alone, followed = [_describe_answer(answer) for answer in answers]
    expected: dict[tuple[str, str], tuple[Any, Any]] = {
        ("fail", FINE): ([2, 4], 6),
        ("fail", FAILS): ("JobFailed ValueError", "JobFailed ValueError"),
        ("fail", CANCELLED): ("JobCancelled", "JobCancelled"),
        ("fail", DELETED): ("JobCancelled", "JobCancelled"),
        ("collect", FINE): (["finished 2 None", "finished 4 None"],) * 2,
        ("collect", FAILS): (["finished 2 None", "failed None ValueError"],) * 2,
        ("collect", CANCELLED): (["finished 2 None", "cancelled None None"],) * 2,
        ("collect", DELETED): (["finished 2 None", "gone None None"],) * 2,
        ("ignore", FINE): ([2, 4],) * 2,
        ("ignore", FAILS): ([2, None],) * 2,
        ("ignore", CANCELLED): ([2, None],) * 2,
        ("ignore", DELETED): ([2, None],) * 2,
    }
    assert (alone, followed) == expected[policy, happens]


def _describe_answer(answer: Any) -> Any:
    if isinstance(answer, JobFailed):
        return f"JobFailed {answer.type}"
    if isinstance(answer, BaseException):
        return type(answer).__name__
    if isinstance(answer, list):
        return [
            f"{item.state} {item.value} {item.error.get('type')}" if isinstance(item, Outcome) else item
            for item in answer
        ]
    return answer


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_a_step_that_a_person_removes_ends_the_chain(app: Windlass, tasks: Any, working: Any, verb: str) -> None:
    async with working(app, queues=["default"]):
        service = await app.aservice()
        handle = await tasks.idle.call().then(tasks.add).then(tasks.show).aenqueue()
        await getattr(service, verb)([handle.steps[0].id_bytes]).one()
        with pytest.raises(JobCancelled):
            await handle.aresult(SECONDS)


async def test_a_step_that_a_person_wakes_too_early(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app, queues=["default"]):
        service = await app.aservice()
        handle = await tasks.idle.call().then(tasks.add).aenqueue()
        await service.wake([handle.id_bytes]).one()
        with pytest.raises(JobFailed, match="that job is not ended"):
            await handle.aresult(SECONDS)


async def test_a_failure_in_a_chain_within_a_group(app: Windlass, tasks: Any, working: Any) -> None:
    members = [tasks.double.call(1), tasks.fail.call("no").then(tasks.double)]
    async with working(app):
        for policy, expected in (("fail", "JobFailed ValueError"), ("ignore", [2, None])):
            flow = group(members, on_failure=policy)  # type: ignore[call-overload]
            answers = await asyncio.gather((await flow.aenqueue()).aresult(SECONDS), return_exceptions=True)
            assert _describe_answer(answers[0]) == expected


async def test_what_follows_a_policy_that_goes_on(app: Windlass, tasks: Any, working: Any) -> None:
    async with working(app):
        flow = group(tasks.fail.call("no"), on_failure="ignore").and_then(
            group(tasks.double.call(1), tasks.double.call(2))
        )
        assert await (await flow.aenqueue()).aresult(SECONDS) == [2, 4]
