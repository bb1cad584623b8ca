"""Wakeups: waiting takers and callers that await an end are woken at once, without a loop, and no wakeup is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.service.helpers import another, counts, new, put, take
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Ending, Job
from windlass.core.operations import Edit, Fail, Filter, Finish, LeaseRef, Take, Taken
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands.admin.maintenance import pass_wakeup
from windlass.store.commands.command import Flow
from windlass.store.commands.take import WaitRegistration
from windlass.store.commands.take import take as take_call
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.store import Store
from windlass.store.waiting.take import take_flow
from windlass.store.waiting.wakeups import Listener

WAIT_MS = 20_000  # far more than any test takes
SOON_S = 8.0  # a lost wakeup shows as a longer wait

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def opened(*services: Service) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for service in services:
            await service.store.close()


@contextlib.contextmanager
def closing(*services: Service) -> Iterator[None]:
    try:
        yield
    finally:
        for service in services:
            service.store.close_sync()


async def wait_for(service: Service, *queues: str, wants: Filter | None = None, wait_ms: int = WAIT_MS) -> list[Job]:
    return (await service.take(Take(queues=queues or ("q",), wants=wants or Filter(), wait_ms=wait_ms))).jobs


async def registered(service: Service, takers: int, queue: str = "q") -> None:
    """Until so many processes (with different filters) wait at the queue."""
    async with asyncio.timeout(SOON_S):
        while (await service.stats([queue]))[0].waiting_takers < takers:  # noqa: ASYNC110 (it happens in the engine)
            await asyncio.sleep(0.002)


async def unregistered(service: Service, takers: int, queue: str = "q") -> None:
    """Wait until at most this many takers are registered: the engine wakes no taker that has left."""
    async with asyncio.timeout(SOON_S):
        while (await service.stats([queue]))[0].waiting_takers > takers:  # noqa: ASYNC110 (it happens in the engine)
            await asyncio.sleep(0.002)


async def soon(work: asyncio.Future[list[Job]]) -> list[Job]:
    async with asyncio.timeout(SOON_S):
        return await work


@pytest.fixture
async def stores(service: Service) -> AsyncIterator[list[Service]]:
    """Return the service and two others, with a store each."""
    services = [service, another(service), another(service)]
    async with opened(*services):
        yield services


# One waits, one job comes


async def test_a_waiting_taker_gets_a_job_of_another_process_at_once(stores: list[Service]) -> None:
    work = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[1], 1)
    answer = await stores[1].enqueue([new()]).one()
    assert [job.id for job in await soon(work)] == [answer.id]


async def test_a_job_that_is_there_is_taken_without_waiting(stores: list[Service]) -> None:
    await stores[0].enqueue([new()])
    assert len(await soon(asyncio.create_task(wait_for(stores[0])))) == 1


async def test_the_wait_ends_with_nothing(stores: list[Service]) -> None:
    assert await wait_for(stores[0], wait_ms=30) == []


async def test_a_wait_after_an_empty_one_is_woken_too(stores: list[Service]) -> None:
    for _ in range(3):
        assert await wait_for(stores[0], wait_ms=30) == []
        work = asyncio.create_task(wait_for(stores[0]))
        await registered(stores[1], 1)
        await stores[1].enqueue([new()])
        assert len(await soon(work)) == 1


def wake_in_thread(service: Service, wake: Callable[[], object], *queues: str, wait_ms: int = WAIT_MS) -> list[Job]:
    """Wait without an event loop in a thread; call `wake` once the taker is registered."""
    found: list[Job] = []
    request = Take(queues=queues or ("q",), wait_ms=wait_ms)
    thread = threading.Thread(target=lambda: found.extend(service.take(request).wait().jobs))
    thread.start()
    give_up_at = time.monotonic() + SOON_S
    while service.stats([request.queues[0]]).wait()[0].waiting_takers == 0 and time.monotonic() < give_up_at:
        time.sleep(0.002)
    wake()
    thread.join(SOON_S)
    assert not thread.is_alive()
    return found


def test_a_blocked_thread_gets_a_job_of_another_process_at_once(service: Service) -> None:
    other = another(service)
    with closing(other):
        (job,) = wake_in_thread(service, lambda: put(other, new(payload=Blob(b"1"))))
        assert job.payload == Blob(b"1")


def test_a_blocked_threads_wait_ends_with_nothing(service: Service) -> None:
    assert take(service, wait_ms=30) == []


@pytest.mark.parametrize("how", ["release", "retry", "requeue", "edit", "person"])
def test_every_way_to_make_a_job_takeable_wakes_takers(service: Service, how: str) -> None:
    (answer,) = put(service, new(delay_ms=3_600_000 if how == "edit" else 0))
    jobs = take(service)
    if how == "person":
        service.fail([Fail(id=answer.id, token=0)]).one().wait()

    def wake() -> None:
        actions = {
            "release": lambda: service.release([LeaseRef(answer.id, 0)]),
            "retry": lambda: service.fail([Fail(id=answer.id, token=0, then="retry")]),
            "requeue": lambda: service.requeue([answer.id]),
            "edit": lambda: service.edit([Edit(id=answer.id, run_at_ms=1)]),
            "person": lambda: service.retry([answer.id]),
        }
        actions[how]().wait()

    assert len(jobs) == (how != "edit")
    assert [job.id for job in wake_in_thread(service, wake)] == [answer.id]


# Time comes


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_waiting_taker_wakes_when_a_scheduled_job_is_due(stores: list[Service], is_known: bool) -> None:
    if is_known:
        await stores[1].enqueue([new(delay_ms=200)])
    work = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[1], 1)
    if not is_known:
        await stores[1].enqueue([new(delay_ms=200)])
    (job,) = await soon(work)
    assert job.started_at_ms is not None
    assert job.started_at_ms >= job.run_at_ms


def test_a_blocked_thread_wakes_when_a_scheduled_job_is_due(service: Service) -> None:
    (job,) = wake_in_thread(service, lambda: put(service, new(delay_ms=100)))
    assert job.started_at_ms is not None
    assert job.started_at_ms >= job.run_at_ms


async def test_a_waiting_taker_wakes_when_a_lease_runs_out(stores: list[Service]) -> None:
    await stores[0].enqueue([new()])
    (old,) = (await stores[0].take(Take(queues=("q",), lease_ms=200))).jobs
    (job,) = await soon(asyncio.create_task(wait_for(stores[1])))
    assert (job.id, job.attempt) == (old.id, 2)


# Many wait


async def test_several_wait_and_exactly_one_gets_the_job(stores: list[Service]) -> None:
    tasks = [asyncio.create_task(wait_for(service)) for service in stores for _ in range(3)]
    await registered(stores[0], 3)
    await stores[0].enqueue([new()])
    _done, pending = await asyncio.wait(tasks, timeout=SOON_S, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait(pending, timeout=0.05)
    assert [len(task.result()) for task in tasks if task.done()] == [1]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


@pytest.mark.parametrize("in_one_call", [True, False])
@pytest.mark.parametrize("in_one_process", [True, False])
async def test_as_many_jobs_as_waiting_takers_serve_them_all(
    stores: list[Service], in_one_call: bool, in_one_process: bool
) -> None:
    waiting = [stores[0] if in_one_process else stores[at % 3] for at in range(30)]
    tasks = [asyncio.create_task(wait_for(service)) for service in waiting]
    await registered(stores[0], 1 if in_one_process else 3)
    jobs = [new() for _ in tasks]
    if in_one_call:
        await stores[2].enqueue(jobs)
    else:
        for job in jobs:
            await stores[2].enqueue([job])
    async with asyncio.timeout(SOON_S):
        found = await asyncio.gather(*tasks)
    assert len({job.id for jobs in found for job in jobs}) == 30


async def test_a_taker_that_wants_many_leaves_the_rest_to_the_next(stores: list[Service]) -> None:
    first = asyncio.create_task(_take_three(stores[0]))
    await registered(stores[2], 1)
    second = asyncio.create_task(wait_for(stores[1]))
    await registered(stores[2], 2)
    await stores[2].enqueue([new() for _ in range(4)])
    assert len(await soon(first)) + len(await soon(second)) == 4


async def _take_three(service: Service) -> list[Job]:
    return (await service.take(Take(queues=("q",), most=3, wait_ms=WAIT_MS))).jobs


def test_as_many_jobs_as_blocked_threads_serve_them_all(service: Service) -> None:
    found: list[Job] = []
    threads = [threading.Thread(target=lambda: found.extend(take(service, wait_ms=WAIT_MS))) for _ in range(6)]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + SOON_S
    while service.stats(["q"]).wait()[0].waiting_takers < 6 and time.monotonic() < give_up_at:
        time.sleep(0.002)
    put(service, *(new() for _ in threads))
    for thread in threads:
        thread.join(SOON_S)
    assert len({job.id for job in found}) == 6


# Filters


async def test_a_filter_is_not_woken_in_vain_and_loses_no_wakeup(stores: list[Service]) -> None:
    await stores[0].configure("q", {"name_lanes": True})
    picky = asyncio.create_task(wait_for(stores[0], wants=Filter(only=("mail",))))
    await registered(stores[2], 1)
    open_to_all = asyncio.create_task(wait_for(stores[1]))
    await registered(stores[2], 2)
    await stores[2].enqueue([new(name="pdf")])
    assert [job.name for job in await soon(open_to_all)] == ["pdf"]
    assert (await stores[2].stats(["q"]))[0].waiting_takers == 1  # the taker with a filter was never woken
    await stores[2].enqueue([new(name="pdf"), new(name="mail")])
    assert [job.name for job in await soon(picky)] == ["mail"]


async def test_takers_of_one_process_with_different_filters(stores: list[Service]) -> None:
    await stores[0].configure("q", {"name_lanes": True})
    names = ("a", "b", "c")
    tasks = [asyncio.create_task(wait_for(stores[0], wants=Filter(glob=f"{name}*"))) for name in names]
    await registered(stores[1], 3)
    await stores[1].enqueue([new(name=f"{name}1") for name in reversed(names)])
    found = await asyncio.gather(*map(soon, tasks))
    assert [[job.name for job in jobs] for jobs in found] == [["a1"], ["b1"], ["c1"]]


async def test_a_taker_with_a_priority(stores: list[Service]) -> None:
    work = asyncio.create_task(wait_for(stores[0], wants=Filter(priority=5)))
    await registered(stores[1], 1)
    await stores[1].enqueue([new(priority=4), new(priority=5)])
    assert [job.priority for job in await soon(work)] == [5]


# Takers that leave


async def test_a_taker_that_took_elsewhere_does_not_lose_the_wakeup_of_its_other_queue(stores: list[Service]) -> None:
    both = asyncio.create_task(wait_for(stores[0], "a", "b"))
    await registered(stores[2], 1, "b")
    only_b = asyncio.create_task(wait_for(stores[1], "b"))
    await registered(stores[2], 2, "b")
    await stores[2].enqueue([new("a")])
    await soon(both)
    await unregistered(stores[2], 1, "b")
    await stores[2].enqueue([new("b")])
    assert len(await soon(only_b)) == 1


@pytest.mark.parametrize("takes", [True, False])
def test_a_thread_that_left_does_not_lose_a_wakeup(service: Service, takes: bool) -> None:
    other, third = another(service), another(service)
    with closing(other, third):
        if takes:
            assert len(wake_in_thread(service, lambda: put(other, new("a")), "a", "b")) == 1
        else:
            assert take(service, "b", wait_ms=20) == []
        assert len(wake_in_thread(other, lambda: put(third, new("b")), "b")) == 1


async def test_a_taker_that_gave_up_does_not_lose_a_wakeup(stores: list[Service]) -> None:
    leaving = asyncio.create_task(wait_for(stores[0], wait_ms=40))
    await registered(stores[2], 1)
    staying = asyncio.create_task(wait_for(stores[1]))
    assert await leaving == []
    await unregistered(stores[2], 1)
    await registered(stores[2], 1)
    await stores[2].enqueue([new()])
    assert len(await soon(staying)) == 1


async def test_a_short_wait_does_not_end_the_registration_of_a_longer_one(stores: list[Service]) -> None:
    """Takers of one process share their registration at a queue. The enqueue comes 10 s later, by the engine's time."""
    staying = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[2], 1)
    assert await wait_for(stores[0], wait_ms=30) == []
    stores[2].store.clock_offset_ms = 10_000
    await stores[2].enqueue([new()])
    assert len(await soon(staying)) == 1


async def test_no_taker_is_registered_when_all_have_left(stores: list[Service]) -> None:
    cancelled = asyncio.create_task(wait_for(stores[0], "a", "b"))
    await registered(stores[2], 1, "b")
    cancelled.cancel()
    served = [asyncio.create_task(wait_for(service, "b", "c")) for service in stores[:2] for _ in range(3)]
    await registered(stores[2], 2, "c")
    await stores[2].enqueue([new("c") for _ in served])
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(cancelled, *served, return_exceptions=True)
    assert [len(task.result()) for task in served] == [1] * 6
    for queue in ("a", "b", "c"):
        await unregistered(stores[2], 0, queue)


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_cancelled_taker_loses_neither_wakeup_nor_job(stores: list[Service], turns: int) -> None:
    """Cancelled at different moments: before the wakeup, after it, while the job is in transit."""
    leaving = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[2], 1)
    staying = asyncio.create_task(wait_for(stores[1]))
    await registered(stores[2], 2)
    answer = await stores[2].enqueue([new()]).one()
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving.cancel()
    (outcome,) = await asyncio.gather(leaving, return_exceptions=True)
    if isinstance(outcome, asyncio.CancelledError):
        (job,) = await soon(staying)
        assert (job.id, job.attempt) == (answer.id, 1)
    else:
        assert outcome
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)


@pytest.mark.parametrize("turns", range(0, 12, 2))
async def test_a_cancelled_taker_passes_its_wakeup_to_the_next_in_its_process(
    stores: list[Service], turns: int
) -> None:
    leaving = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[2], 1)
    staying = asyncio.create_task(wait_for(stores[0]))
    await asyncio.sleep(0.01)
    answer = await stores[2].enqueue([new()]).one()
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving.cancel()
    (outcome,) = await asyncio.gather(leaving, return_exceptions=True)
    if isinstance(outcome, asyncio.CancelledError):
        assert [job.id for job in await soon(staying)] == [answer.id]
    else:
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)


async def test_a_wakeup_that_is_passed_on_goes_to_a_taker_that_wants_the_job(stores: list[Service]) -> None:
    """The taker with a filter is first in line, but a wakeup for another name is not for it."""
    await stores[0].configure("q", {"name_lanes": True})
    picky = asyncio.create_task(wait_for(stores[0], wants=Filter(only=("mail",))))
    await registered(stores[2], 1)
    staying = asyncio.create_task(wait_for(stores[1]))
    await registered(stores[2], 2)

    def wait_briefly() -> Flow[Any]:
        yield take_call(Take(queues=("q",)), ["q"], 0, WaitRegistration("busy", 10_000))

    def pass_on() -> Flow[Any]:
        yield pass_wakeup("busy", "q", ("",), 0)

    await stores[2].store.run(wait_briefly())  # its registration ends first: it is woken first
    await stores[2].enqueue([new(name="pdf")])
    assert (await stores[2].stats(["q"]))[0].waiting_takers == 2
    await stores[2].store.run(pass_on())
    assert [job.name for job in await soon(staying)] == ["pdf"]
    picky.cancel()
    await asyncio.gather(picky, return_exceptions=True)


async def test_a_job_given_to_a_cancelled_caller_is_given_back_unspent(stores: list[Service]) -> None:
    await stores[0].store.open()
    for turns in range(12):
        await stores[0].enqueue([new()])
        work = asyncio.create_task(wait_for(stores[0], wait_ms=0))
        for _ in range(turns):
            await asyncio.sleep(0)
        work.cancel()
        (outcome,) = await asyncio.gather(work, return_exceptions=True)
        if isinstance(outcome, asyncio.CancelledError):
            (job,) = await soon(asyncio.create_task(wait_for(stores[1])))
        else:
            assert not isinstance(outcome, BaseException)
            (job,) = outcome
        assert job.attempt == 1
        await stores[1].finish([Finish(job.id, job.lease_token)]).one()
    assert counts(stores[0]) == {}


@pytest.mark.parametrize("seed", range(4))
async def test_a_crowd_of_takers_leaves_nothing_lying(stores: list[Service], seed: int) -> None:
    """Takers with all kinds of filters come, wait, are cancelled, come again; all jobs are done, and no loop runs."""
    chance = random.Random(seed)
    await stores[0].configure("q", {"name_lanes": True})
    kinds = [Filter(), Filter(only=("a",)), Filter(all_but=("a", "b")), Filter(glob="[bc]*"), Filter(priority=1)]
    done: list[bytes] = []
    is_over = asyncio.Event()

    async def finish(service: Service, job: Job) -> None:
        await service.finish([Finish(job.id, job.lease_token)]).one()
        done.append(job.id)
        if len(done) == 200:
            is_over.set()

    async def work(service: Service, wants: Filter) -> None:
        while not is_over.is_set():
            for job in await wait_for(service, "q", wants=wants):
                await asyncio.shield(finish(service, job))

    workers = [asyncio.create_task(work(service, wants)) for service in stores[:2] for wants in kinds]
    for _ in range(40):
        delay_ms = chance.choice([0, 0, 0, 20])
        names = [chance.choice("abcd") for _ in range(5)]
        await stores[2].enqueue([new(name=name, priority=chance.randrange(3), delay_ms=delay_ms) for name in names])
        at = chance.randrange(len(workers))
        workers[at].cancel()
        await asyncio.sleep(chance.choice([0, 0.001]))
        workers[at] = asyncio.create_task(work(stores[at % 2], kinds[at % len(kinds)]))
    try:
        async with asyncio.timeout(SOON_S):
            await is_over.wait()
    except TimeoutError:
        pytest.fail(f"{len(done)} of 200 done, {counts(stores[2])} left")
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    assert len(set(done)) == 200


# Connections break


async def test_waiting_survives_the_loss_of_all_connections(stores: list[Service]) -> None:
    work = asyncio.create_task(wait_for(stores[0]))
    await registered(stores[1], 1)
    _kill_all_connections(stores[0])
    await stores[1].enqueue([new()])
    assert len(await soon(work)) == 1


def test_a_blocked_thread_survives_the_loss_of_all_connections(service: Service) -> None:
    def wake() -> None:
        _kill_all_connections(service)
        put(service, new())

    assert len(wake_in_thread(service, wake)) == 1


def _kill_all_connections(service: Service) -> None:
    link = SyncReconnectingConnection(service.store.endpoint)
    try:
        assert link.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") > 0
    finally:
        link.close()


# The end of a job


async def test_an_end_is_awaited_by_several_processes(stores: list[Service]) -> None:
    (answer,) = await stores[0].enqueue([new(result_ttl_ms=60_000)])
    assert not isinstance(answer, Exception)
    tasks = [asyncio.ensure_future(_result(service, answer.id)) for service in stores for _ in range(2)]
    (job,) = (await stores[0].take(Take(queues=("q",)))).jobs
    await asyncio.sleep(0.05)
    await stores[1].finish([Finish(job.id, job.lease_token, Blob(b"42"))]).one()
    async with asyncio.timeout(SOON_S):
        endings = await asyncio.gather(*tasks)
    assert endings == [Ending(state=State.FINISHED, result=Blob(b"42"))] * 6


async def _result(service: Service, job_id: bytes, wait_ms: int = WAIT_MS) -> Ending | None:
    return await service.result(job_id, wait_ms=wait_ms)


async def test_the_end_of_a_job_of_which_nothing_is_kept(stores: list[Service]) -> None:
    answer = await stores[0].enqueue([new()]).one()
    awaited = asyncio.create_task(_result(stores[1], answer.id))
    (job,) = (await stores[0].take(Take(queues=("q",)))).jobs
    await asyncio.sleep(0.05)
    await stores[0].finish([Finish(job.id, job.lease_token, Blob(b"42"))]).one()
    async with asyncio.timeout(SOON_S):
        try:
            assert await awaited == Ending(state=State.FINISHED)
        except AlreadyEnded:
            pytest.fail("it was awaited before it ended")


async def test_an_awaited_job_that_fails_for_good(stores: list[Service]) -> None:
    answer = await stores[0].enqueue([new()]).one()
    awaited = asyncio.create_task(_result(stores[1], answer.id))
    for then in ("retry", "final"):
        (job,) = (await stores[0].take(Take(queues=("q",)))).jobs
        await asyncio.sleep(0.02)
        assert not awaited.done()
        await stores[0].fail([Fail(id=job.id, token=job.lease_token, then=then, reason=then)]).one()  # type: ignore[arg-type]
    async with asyncio.timeout(SOON_S):
        ending = await awaited
    assert ending is not None
    assert ending.last_attempt is not None
    assert (ending.state, ending.last_attempt.reason) == (State.FAILED, "final")


async def test_an_end_that_does_not_come_in_time(stores: list[Service]) -> None:
    answer = await stores[0].enqueue([new()]).one()
    assert await _result(stores[0], answer.id, wait_ms=30) is None
    assert await _result(stores[0], answer.id, wait_ms=0) is None
    with pytest.raises(UnknownJob):
        await _result(stores[0], stores[0].store.new_id("q"))


def test_an_end_is_awaited_by_a_thread(service: Service) -> None:
    (answer,) = put(service, new(result_ttl_ms=60_000))
    endings: list[Ending | None] = []
    thread = threading.Thread(target=lambda: endings.append(service.result(answer.id, wait_ms=WAIT_MS).wait()))
    thread.start()
    (job,) = take(service)
    time.sleep(0.05)
    service.finish([Finish(job.id, job.lease_token, Blob(b"42"))]).one().wait()
    thread.join(SOON_S)
    assert endings == [Ending(state=State.FINISHED, result=Blob(b"42"))]


# And otherwise it is quiet


async def test_idle_takers_ask_nothing(stores: list[Service]) -> None:
    tasks = [asyncio.create_task(wait_for(stores[at % 2], f"q{at}", "common")) for at in range(10)]
    await registered(stores[2], 2, "common")
    await registered(stores[2], 1, "q9")
    link = SyncReconnectingConnection(stores[0].store.endpoint)
    before = _commands(link)
    for _ in range(15):
        await asyncio.sleep(0.1)
    issued = _commands(link) - before
    link.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert issued <= 5


def _commands(link: SyncReconnectingConnection) -> int:
    """Commands processed so far, those of this measurement (INFO) left out."""
    lines = link.call("INFO", "commandstats").decode().splitlines()
    found = dict(line.removeprefix("cmdstat_").split(":", 1) for line in lines if line.startswith("cmdstat_"))
    return sum(int(values.partition("calls=")[2].partition(",")[0]) for name, values in found.items() if name != "info")


@pytest.mark.anyio
async def test_a_waiter_polls_again_when_the_wakeup_connection_was_lost(service: Service, store: Store) -> None:
    """A wakeup in transit is lost when its connection breaks."""
    async with store, asyncio.timeout(10):
        listener = Listener((("q", ""),))
        wakeups = store.wakeups.of(0)
        wakeups.add(listener)
        try:
            await asyncio.to_thread(_until_blocked, store)
            assert not listener.event.is_set()
            store._sync_connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await listener.event.wait()
        finally:
            wakeups.leave(listener)


def _until_blocked(store: Store) -> None:
    while b"cmd=blpop" not in store._sync_connection.call("CLIENT", "LIST"):
        time.sleep(0.01)


@pytest.mark.anyio
async def test_many_waiters_that_want_something_else_cost_little(store: Store) -> None:
    """A thousand jobs meet a thousand takers of other names: the engine is not busy with asking each about each."""
    service = Service(store)
    async with store:
        await service.configure("q", {"name_lanes": True})
        for number in range(1_000):
            request = Take(queues=("q",), wants=Filter(only=(f"other-{number}",)))
            await store.run(take_flow(request, ["q"], 0, WaitRegistration(f"bell-{number}", 60_000)))
        async with asyncio.timeout(10):  # the engine would have been busy for longer
            await service.enqueue([new(name=f"n{number % 10}") for number in range(1_000)])
            waiting = asyncio.ensure_future(_wait(service, "n3"))
            assert len((await waiting).jobs) == 1


async def _wait(service: Service, name: str) -> Taken:
    return await service.take(Take(queues=("q",), wants=Filter(only=(name,)), wait_ms=5_000))
