"""enqueue with `whole`: jobs that are accepted together or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from windlass.core.errors import BadInput, CrossPartition, IdConflict, ParentState, QueueFull, TooLarge, UnknownMember
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.store import Store

QUEUE = "q"


def chain(service: Service, *queues: str) -> list[NewJob]:
    ids = service.store.new_ids(queues)
    return [
        NewJob(queue=queue, name=f"step {at}", id=ids[at], after=(ids[at - 1],) if at else ())
        for at, queue in enumerate(queues)
    ]


def test_all_of_them(service: Service) -> None:
    jobs = chain(service, QUEUE, "other", QUEUE)
    answers = service.enqueue(jobs, whole=True).wait()
    assert [answer.status for answer in answers] == ["queued", "waiting", "waiting"]
    again = service.enqueue(jobs, whole=True).wait()
    assert [answer.status for answer in again] == ["existing"] * 3


@pytest.mark.parametrize("bound", [{"max_length": 1}, {"max_bytes": 250}])
def test_none_of_them_when_a_queue_is_full(service: Service, bound: dict[str, int]) -> None:
    service.configure("small", bound).wait()
    answers = service.enqueue(chain(service, QUEUE, "small", "small"), whole=True).wait()
    assert [type(answer) for answer in answers] == [QueueFull] * 3
    assert service.take(Take(queues=(QUEUE, "small"))).wait().jobs == []
    assert len(service.enqueue(chain(service, QUEUE, "small"), whole=True).wait()) == 2
    assert service.stats(["small"]).wait()[0].waiting == 1


def test_a_repeated_call_is_recognised_by_a_full_queue(service: Service) -> None:
    service.configure(QUEUE, {"max_length": 3}).wait()
    jobs = chain(service, QUEUE, QUEUE, QUEUE)
    service.enqueue(jobs, whole=True).wait()
    assert [answer.status for answer in service.enqueue(jobs, whole=True).wait()] == ["existing"] * 3
    assert isinstance(service.enqueue([NewJob(queue=QUEUE, name="n")]).wait()[0], QueueFull)


def test_none_of_them_when_one_is_refused_for_its_own_sake(service: Service) -> None:
    first, second = chain(service, QUEUE, QUEUE)
    unknown = service.store.new_id(QUEUE)
    (done,) = service.enqueue([NewJob(queue="else", name="waits")]).wait()
    for bad, refusal in (
        (NewJob(queue=QUEUE, name="n", after=(unknown,)), UnknownMember),
        (NewJob(queue=QUEUE, name="n", parent=done.id), ParentState),
        (NewJob(queue="else", name="another", id=done.id), IdConflict),
    ):
        assert [type(one) for one in service.enqueue([first, second, bad], whole=True).wait()] == [refusal] * 3
    assert service.stats([QUEUE]).wait()[0].queued == 0


def test_children_of_a_group_that_comes_with_them(service: Service) -> None:
    group_id = service.store.new_id(QUEUE)
    group = NewJob(queue=QUEUE, name="g", id=group_id, joins=True)
    answers = service.enqueue([group, NewJob(queue=QUEUE, name="n", parent=group_id)], whole=True).wait()
    assert [answer.status for answer in answers] == ["waiting", "queued"]


@pytest.mark.anyio
async def test_others_that_travel_in_the_same_call_are_not_concerned(service: Service) -> None:
    async with service.store.clone() as store:
        mine = Service(store)
        await mine.configure("small", {"max_length": 1})
        single = [NewJob(queue=QUEUE, name="n")]
        asked = [
            mine.enqueue(single),
            mine.enqueue(chain(mine, "small", "small"), whole=True),
            mine.enqueue(single),
            mine.enqueue(chain(mine, QUEUE, "small"), whole=True),
        ]
        answers = await asyncio.gather(*asked)
    kinds = [[type(one).__name__ for one in part] for part in answers]
    assert kinds == [["Enqueued"], ["QueueFull"] * 2, ["Enqueued"], ["Enqueued"] * 2]


def test_what_cannot_be_one_step(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.enqueue([NewJob(queue=QUEUE, name="n")] * 2001, whole=True)
    with pytest.raises(TooLarge):
        service.enqueue([NewJob(queue=QUEUE, name="n", payload=Blob(bytes(1024 * 1024)))] * 5, whole=True)
    with pytest.raises(BadInput, match="unique"):
        service.enqueue([NewJob(queue=QUEUE, name="n", unique="k")], whole=True)
    many = service.enqueue([NewJob(queue=QUEUE, name="n") for _ in range(2000)], whole=True).wait()
    assert {answer.status for answer in many} == {"queued"}


def test_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(64))
    with pytest.raises(CrossPartition, match="tag"):
        service.enqueue([NewJob(queue=f"q{at}", name="n") for at in range(9)], whole=True).wait()
    jobs = chain(service, "{a}1", "{a}2")
    assert [answer.status for answer in service.enqueue(jobs, whole=True).wait()] == ["queued", "waiting"]
