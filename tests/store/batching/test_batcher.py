"""Concurrent commands of one kind share calls, bounded in number and bytes, and do not disturb each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadInput, EngineError, QueueFull, Refusal
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.batching.batcher import BYTES_MAX, IN_FLIGHT_MAX, Batcher
from windlass.store.commands.command import ITEMS_MAX, Argument, size_of
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as engine:
        yield engine


@pytest.fixture
def service(shared_engine: EngineProcess, request: pytest.FixtureRequest) -> Service:
    return Service(Store(parse_url(shared_engine.unix_url), namespace=request.node.name, is_test=True))


def job(**kw: Any) -> NewJob:
    return NewJob(**({"queue": "q", "name": "n"} | kw))


async def function_calls(service: Service) -> int:
    info = await service.store._connection("calls").call("INFO", "commandstats")
    for line in info.splitlines():
        if line.startswith(b"cmdstat_fcall:calls="):
            return int(line.split(b"=")[1].split(b",")[0])
    return 0


async def test_a_hundred_concurrent_enqueues_are_few_calls(service: Service) -> None:
    await service.enqueue([job()])
    before = await function_calls(service)
    answers = await asyncio.gather(*(service.enqueue([job(priority=number)]).one() for number in range(100)))
    calls = await function_calls(service) - before
    assert calls <= IN_FLIGHT_MAX + 1
    assert len({answer.id for answer in answers}) == 100
    for number, answer in enumerate(answers):
        assert (await service.job([answer.id]).one()).job.priority == number
    await service.store.close()


async def test_order_is_that_of_the_callers(service: Service) -> None:
    await service.store.open()
    answers = await asyncio.gather(*(service.enqueue([job(), job()]) for _ in range(300)))
    ids = [answer.id for pair in answers for answer in pair if not isinstance(answer, Refusal)]
    taken: list[bytes] = []
    while found := (await service.take(Take(queues=("q",), most=1_000))).jobs:
        taken += [job.id for job in found]
    assert taken == ids
    await service.store.close()


async def test_a_refusal_reaches_its_caller_only(service: Service) -> None:
    job_id = service.store.new_id("q")
    await service.enqueue([job(id=job_id)])
    answers = await asyncio.gather(
        service.enqueue([job()]).one(),
        service.enqueue([job(id=job_id, name="other")]).one(),
        service.enqueue([job()]).one(),
        return_exceptions=True,
    )
    assert [getattr(answer, "status", getattr(answer, "code", None)) for answer in answers] == [
        "queued",
        "id_conflict",
        "queued",
    ]
    await service.store.close()


async def test_a_cancelled_caller_does_not_disturb_others(service: Service) -> None:
    await service.store.open()

    async def ask(number: int) -> Any:
        return await service.enqueue([job(priority=number)]).one()

    tasks = [asyncio.create_task(ask(number)) for number in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[3], asyncio.CancelledError)
    for number, answer in enumerate(answers):
        if number != 3:
            assert not isinstance(answer, BaseException)
            assert (await service.job([answer.id]).one()).job.priority == number
    await service.store.close()


async def test_an_engine_error_reaches_all_callers(service: Service) -> None:
    await service.store.open()
    service.store.clock_offset_ms = 5
    await service.store._connection("calls").call("HDEL", service.store.root(0), "test")
    answers = await asyncio.gather(*(service.enqueue([job()]) for _ in range(20)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {type(answers[0])}
    assert all(isinstance(answer, EngineError) and "marked as a test" in str(answer) for answer in answers)
    service.store.clock_offset_ms = 0
    assert (await service.enqueue([job()]).one()).status == "queued"
    await service.store.close()


async def test_an_operation_larger_than_a_batch_is_split(service: Service) -> None:
    await service.enqueue([job()])
    before = await function_calls(service)
    answers = await service.enqueue([job() for _ in range(2_500)])
    assert await function_calls(service) - before == 3
    assert len(answers) == 2_500
    await service.store.close()


async def test_a_megabyte_each_arrives_whole(service: Service) -> None:
    payloads = [bytes([number]) * 1_000_000 for number in range(12)]
    answers = await asyncio.gather(*(service.enqueue([job(payload=Blob(payload))]).one() for payload in payloads))
    for answer, payload in zip(answers, payloads, strict=True):
        assert (await service.job([answer.id]).one()).job.payload.data == payload
    await service.store.close()


# The batcher alone: what it sends

Items: TypeAlias = list[tuple[Argument, ...]]


class Sender:
    """Sender that holds each batch until `go` is set, and answers each item with itself."""

    def __init__(self) -> None:
        self.batches: list[list[Argument]] = []
        self.go = asyncio.Event()
        self.fails: Exception | None = None
        self.refuses_with: Argument | None = None  # an item that refuses its whole batch

    async def __call__(self, parts: list[Items]) -> list[list[Any]]:
        arguments = [argument for items in parts for item in items for argument in item]
        self.batches.append(arguments)
        await self.go.wait()
        if self.fails:
            raise self.fails
        if self.refuses_with in arguments:
            raise BadInput("no")
        return [[item[0] for item in items] for items in parts]


def batcher_of(sender: Sender) -> Batcher[Items, list[Any]]:
    return Batcher(sender)


def submit(batcher: Batcher[Items, list[Any]], items: Items) -> asyncio.Future[list[Any]]:
    return batcher.submit(items, len(items), sum(map(size_of, items)))


async def loop_iterations() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_callers_of_one_loop_iteration_share_a_batch_and_get_their_own_replies() -> None:
    sender = Sender()
    batcher = batcher_of(sender)
    futures = [submit(batcher, [(f"{number}a",), (f"{number}b",)]) for number in range(5)]
    await loop_iterations()
    assert len(sender.batches) == 1
    sender.go.set()
    assert await asyncio.gather(*futures) == [[f"{number}a", f"{number}b"] for number in range(5)]
    await loop_iterations()
    assert batcher.is_idle


async def test_batches_in_flight_are_bounded_while_the_next_fills() -> None:
    sender = Sender()
    batcher = batcher_of(sender)
    futures = []
    for number in range(IN_FLIGHT_MAX + 6):
        futures.append(submit(batcher, [(number,)]))
        await loop_iterations()
    assert [len(batch) for batch in sender.batches] == [1] * IN_FLIGHT_MAX
    sender.go.set()
    await asyncio.gather(*futures)
    assert [len(batch) for batch in sender.batches] == [1] * IN_FLIGHT_MAX + [6]


async def test_a_batch_is_bounded_in_items_and_never_splits_a_caller() -> None:
    sender = Sender()
    sender.go.set()
    batcher = batcher_of(sender)
    futures = [submit(batcher, [(number,) for number in range(400)]) for _ in range(5)]
    replies = await asyncio.gather(*futures)
    assert all(len(batch) <= ITEMS_MAX for batch in sender.batches)
    assert [len(batch) for batch in sender.batches] == [800, 800, 400]
    assert replies == [list(range(400))] * 5


async def test_a_batch_is_bounded_in_bytes() -> None:
    sender = Sender()
    sender.go.set()
    batcher = batcher_of(sender)
    futures = [submit(batcher, [(b"x" * 1_500_000,)]) for _ in range(5)]
    await asyncio.gather(*futures)
    sizes = [sum(len(part) for part in batch if isinstance(part, bytes)) for batch in sender.batches]
    assert sizes == [3_000_000, 3_000_000, 1_500_000]
    assert max(sizes) <= BYTES_MAX
    big = await submit(batcher, [(b"y" * (BYTES_MAX + 1),)])
    assert len(big) == 1


async def test_an_error_reaches_its_whole_batch_and_no_other() -> None:
    sender = Sender()
    batcher = batcher_of(sender)
    sender.fails = EngineError("no")
    first = [submit(batcher, [(number,)]) for number in range(3)]
    await loop_iterations()
    sender.go.set()
    answers = await asyncio.gather(*first, return_exceptions=True)
    assert answers == [sender.fails] * 3
    sender.fails = None
    assert await submit(batcher, [(7,)]) == [7]


async def test_a_cancelled_caller_does_not_shift_the_replies_of_others() -> None:
    sender = Sender()
    batcher = batcher_of(sender)
    futures = [submit(batcher, [(number,)]) for number in range(4)]
    await loop_iterations()
    futures[1].cancel()
    sender.go.set()
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert [answers[0], answers[2], answers[3]] == [[0], [2], [3]]
    assert isinstance(answers[1], asyncio.CancelledError)


async def test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one() -> None:
    sender = Sender()
    sender.refuses_with = 1
    sender.go.set()
    batcher = batcher_of(sender)
    answers = await asyncio.gather(*(submit(batcher, [(number,)]) for number in range(3)), return_exceptions=True)
    assert [answers[0], answers[2]] == [[0], [2]]
    assert isinstance(answers[1], BadInput)
    assert sender.batches == [[0, 1, 2], [0], [1], [2]]


async def test_an_answer_that_is_a_refusal_is_raised_for_its_caller() -> None:
    async def send(parts: list[int]) -> list[int | Refusal]:
        return [QueueFull() if part == 1 else part for part in parts]

    batcher: Batcher[int, int] = Batcher(send)
    answers = await asyncio.gather(*(batcher.submit(number, 1, 0) for number in range(3)), return_exceptions=True)
    assert [answers[0], answers[2]] == [0, 2]
    assert isinstance(answers[1], QueueFull)


async def test_callers_learn_that_their_batch_was_cancelled() -> None:
    sender = Sender()
    batcher = batcher_of(sender)
    future = submit(batcher, [(1,)])
    await loop_iterations()
    (task,) = batcher._in_flight
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    await loop_iterations()
    assert batcher.is_idle
