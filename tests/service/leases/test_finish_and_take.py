"""finish_and_take: report outcomes and take the next jobs, in one call."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.engine_process import EngineProcess
from windlass.core.errors import AlreadyEnded, BadInput, NamesNeedLanes, StaleLease, UnknownJob
from windlass.core.job import Blob
from windlass.core.operations import Fail, Filter, Finish, FinishedAndTaken, Take
from windlass.service import Service

REQUEST = Take(queues=("q",), most=10)


def test_outcomes_and_the_next_jobs(service: Service) -> None:
    put(service, *(new(name=str(at), result_ttl_ms=60_000) for at in range(4)))
    one, two = take(service, most=2)
    answer = service.finish_and_take(
        [Finish(one.id, one.lease_token, Blob(b"1"))],
        [Fail(id=two.id, token=two.lease_token, reason="broken")],
        REQUEST,
    ).wait()
    assert (answer.finished, answer.failed) == ([None], ["failed"])
    assert [job.name for job in answer.taken.jobs] == ["2", "3"]
    assert counts(service) == {"running": 2, "finished": 1, "failed": 1}
    ending = service.result(one.id).wait()
    assert ending is not None
    assert ending.result == Blob(b"1")


def test_partial_refusals(service: Service) -> None:
    put(service, *(new() for _ in range(6)))
    one, two, three, four, five = take(service, most=5)
    service.finish([Finish(three.id, three.lease_token)]).wait()
    answer = service.finish_and_take(
        [
            Finish(one.id, one.lease_token),
            Finish(two.id, two.lease_token + 99),
            Finish(three.id, three.lease_token),
            Finish(one.id, one.lease_token),
        ],
        [
            Fail(id=four.id, token=four.lease_token),
            Fail(id=service.store.new_id("q"), token=1),
            Fail(id=five.id, token=five.lease_token, then="retry", delay_ms=60_000),
            Fail(id=four.id, token=four.lease_token),
        ],
        REQUEST,
    ).wait()
    assert [type(one) for one in answer.finished] == [type(None), StaleLease, AlreadyEnded, AlreadyEnded]
    assert answer.failed[::2] == ["failed", "retried"]
    assert [type(one) for one in answer.failed[1::2]] == [UnknownJob, AlreadyEnded]
    assert len(answer.taken.jobs) == 1
    assert counts(service) == {"running": 2, "failed": 1, "scheduled": 1}


@pytest.mark.parametrize("payload", [b"small", b"x" * 5_000])
def test_a_job_that_is_retried_at_once_may_come_back_in_the_same_call(service: Service, payload: bytes) -> None:
    put(service, new(payload=Blob(payload), lane="l"))
    (job,) = take(service)
    answer = service.finish_and_take([], [Fail(id=job.id, token=job.lease_token, then="retry")], REQUEST).wait()
    (again,) = answer.taken.jobs
    assert (again.id, again.attempt, again.payload.data) == (job.id, 2, payload)
    assert again.lease_token > job.lease_token
    assert counts(service) == {"running": 1}


def test_nothing_to_report_and_nothing_to_take(service: Service) -> None:
    answer = service.finish_and_take([], [], REQUEST).wait()
    assert (answer.finished, answer.failed, answer.taken.jobs) == ([], [], [])


def test_it_does_not_wait(service: Service) -> None:
    assert service.finish_and_take([], [], Take(queues=("q",), wait_ms=3_600_000)).wait().taken.jobs == []


def test_bad_input_reports_nothing(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    good = Finish(job.id, job.lease_token)
    with pytest.raises(BadInput):
        service.finish_and_take([good, Finish(b"short", 1)], [], REQUEST)
    with pytest.raises(BadInput):
        service.finish_and_take([good] * 1001, [], REQUEST)
    with pytest.raises(BadInput):
        service.finish_and_take([good], [], Take(queues=()))
    assert counts(service) == {"running": 1}


def test_a_refused_take_reports_nothing(service: Service) -> None:
    put(service, new(), new())
    one, two = take(service, most=2)
    with pytest.raises(NamesNeedLanes):
        service.finish_and_take(
            [Finish(one.id, one.lease_token)],
            [Fail(id=two.id, token=two.lease_token)],
            Take(queues=("q",), wants=Filter(only=("n",))),
        ).wait()
    assert counts(service) == {"running": 2}


def test_reports_free_room_for_their_own_take(service: Service) -> None:
    """A whole life of a worker: each call reports what the last one brought."""
    put(service, *(new(name=str(at)) for at in range(100)))
    done: list[str] = []
    jobs = take(service, most=7)
    while jobs:
        done += [job.name for job in jobs]
        reports = [Finish(job.id, job.lease_token) for job in jobs]
        jobs = service.finish_and_take(reports, [], Take(queues=("q",), most=7)).wait().taken.jobs
    assert done == [str(at) for at in range(100)]
    assert counts(service) == {}


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_on_the_way_gives_its_jobs_back(
    service: Service, engine: EngineProcess
) -> None:
    async with service.store, asyncio.timeout(10):
        await service.enqueue([new()])

        async def finish_and_take() -> FinishedAndTaken:
            return await service.finish_and_take([], [], Take(queues=("q",)))

        engine.freeze()
        under_way = asyncio.create_task(finish_and_take())
        await asyncio.sleep(0.05)
        under_way.cancel()
        await asyncio.wait({under_way})
        engine.thaw()
        (job,) = (await service.take(Take(queues=("q",), wait_ms=8_000))).jobs
        assert job.attempt == 1
        assert sum(minute.taken for minute in await service.history("q")) == 2
