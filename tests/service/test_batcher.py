"""Batcher: concurrent single enqueues travel together, and each caller gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadInput, EngineUnavailable, IdConflict, TooLarge
from windlass.core.ids import number_of_id
from windlass.core.job import Blob, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.operations import Listing
from windlass.service import Service
from windlass.service.batcher import RequestBatcher
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
one_engine = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def new(number: int = 0, **more: object) -> NewJob:
    return NewJob(queue="q", name="n", payload=Blob(b"%d" % number), **more)  # type: ignore[arg-type]


async def calls_of(service: Service) -> int:
    info = await service.store._connection("calls").call("INFO", "commandstats")
    return next((int(line.split("=")[1].split(",")[0]) for line in info.decode().splitlines() if "_fcall:" in line), 0)


async def listed(service: Service) -> list[bytes]:
    page = await service.jobs(Listing(queue="q", state="queued", most=500))
    return [job.payload.data for job in page.jobs]


@one_engine
async def test_many_callers_need_few_calls_and_keep_their_order(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        await gathering.enqueue(new())
        before = await calls_of(service)
        answers = await asyncio.gather(*(gathering.enqueue(new(number)) for number in range(1, 301)))
        assert await calls_of(service) - before < 10
        assert [answer.status for answer in answers] == ["queued"] * 300
        assert len({answer.id for answer in answers}) == 300
        assert await listed(service) == [b"%d" % number for number in range(301)]


@one_engine
async def test_a_single_enqueue_passes_one_batcher(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        await asyncio.gather(gathering.enqueue(new()), gathering.enqueue_numbered(new()))
        assert not service.store._batchers._batchers
        await service.enqueue([new()])
        assert len(service.store._batchers._batchers) == 1


@one_engine
async def test_jobs_of_several_partitions_travel_together(engine: EngineProcess) -> None:
    async with Store(parse_url(engine.unix_url), namespace="several", partitions=4) as store:
        gathering = RequestBatcher(Service(store))
        jobs = [NewJob(queue=f"q{number}", name="n") for number in range(20)]
        answers = await asyncio.gather(*map(gathering.enqueue, jobs))
        for job, answer in zip(jobs, answers, strict=True):
            assert store.partition_of_job(answer.id) == store.partition_of_queue(job.queue)


@one_engine
async def test_large_jobs_are_sent_within_the_bounds_of_a_call(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        await gathering.enqueue(new())
        before = await calls_of(service)
        large = [NewJob(queue="q", name="n", payload=Blob(b"x" * 1_000_000)) for _ in range(9)]
        await asyncio.gather(*map(gathering.enqueue, large))
        assert await calls_of(service) - before == 3


@one_engine
async def test_a_refusal_concerns_its_caller_only(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        taken = await gathering.enqueue(new(1))
        answers = await asyncio.gather(
            gathering.enqueue(new(2)),
            gathering.enqueue(new(3, priority=2**40)),  # seen before anything is sent
            gathering.enqueue(new(4)),
            gathering.enqueue(NewJob(queue="", name="n")),
            gathering.enqueue(NewJob(queue="q", name="n", payload=Blob(b"x" * 2_000_000))),
            return_exceptions=True,
        )
        assert [type(answer).__name__ for answer in answers] == [
            "Enqueued", "BadInput", "Enqueued", "BadInput", "TooLarge",
        ]  # fmt: skip
        assert isinstance(answers[1], BadInput)
        assert isinstance(answers[4], TooLarge)
        with pytest.raises(IdConflict):  # seen by the engine
            await gathering.enqueue(new(5, id=taken.id))
        assert sorted(await listed(service)) == [b"1", b"2", b"4"]


@one_engine
async def test_levels_of_durability_are_kept_apart(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        answers = await asyncio.gather(
            gathering.enqueue(new(1), "memory"),
            gathering.enqueue(new(2), "nonsense"),  # type: ignore[arg-type]
            gathering.enqueue(new(3), None),
            return_exceptions=True,
        )
        assert [type(answer).__name__ for answer in answers] == ["Enqueued", "BadInput", "Enqueued"]


@one_engine
async def test_a_cancelled_caller_cancels_no_other(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        gone, stays = gathering.enqueue(new(1)), gathering.enqueue(new(2))
        gone.cancel()
        assert (await stays).status == "queued"


async def test_an_unavailable_engine_fails_all_callers_and_work_continues_after_it() -> None:
    with EngineProcess("valkey") as engine:
        async with Store(parse_url(engine.unix_url), patience_s=0.2) as store:
            gathering = RequestBatcher(Service(store))
            await gathering.enqueue(new())
            engine.kill()
            answers = await asyncio.gather(*(gathering.enqueue(new(n)) for n in range(3)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [EngineUnavailable] * 3
            engine.start()
            assert (await gathering.enqueue(new(9))).status == "queued"


@one_engine
async def test_jobs_that_get_numbers_travel_together_and_their_numbers_follow_each_other(service: Service) -> None:
    async with service.store:
        gathering = RequestBatcher(service)
        first = number_of_id((await gathering.enqueue_numbered(new())).id)
        assert first is not None
        before = await calls_of(service)
        made = await asyncio.gather(*(gathering.enqueue_numbered(new(number)) for number in range(100)))
        assert await calls_of(service) - before < 10
        assert [number_of_id(one.id) for one in made] == list(range(first + 1, first + 101))
        assert await listed(service) == [b"0", *(b"%d" % number for number in range(100))]
        assert number_of_id((await service.reserve_numbers("q"))[0]) == first + 101


@one_engine
async def test_jobs_of_one_form_have_the_ids_that_they_were_given(service: Service) -> None:
    async with service.store:
        gathering, form = RequestBatcher(service), JobTemplate(new())
        given = [
            PreparedJob(form, Blob(b"1"), b"i" * 16),
            PreparedJob(form, Blob(b"2")),
            PreparedJob(form, Blob(b"3"), b"j" * 16),
        ]
        answers = await asyncio.gather(*map(gathering.enqueue, given))
        assert [answers[0].id, answers[2].id] == [b"i" * 16, b"j" * 16]
        assert answers[1].id not in (b"", answers[0].id, answers[2].id)
        assert sorted(await listed(service)) == [b"1", b"2", b"3"]
        with pytest.raises(BadInput, match="16 bytes"):
            await gathering.enqueue(PreparedJob(form, Blob(b"4"), b"short"))
