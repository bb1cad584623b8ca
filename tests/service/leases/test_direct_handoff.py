"""Direct handoff: a simple job in an idle queue travels with the wakeup to a waiting worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.service.frozen_engine import START_MS, frozen_library
from tests.service.helpers import counts, new, put, read, take
from tests.service.leases.test_fast_paths import Side
from tests.service.workers.test_report_worker import pass_ms
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from windlass.core.errors import Refusal, StaleLease, WrongState
from windlass.core.ids import make_id
from windlass.core.job import Blob, Job
from windlass.core.operations import ANY_JOB, ANY_JOB_WITH_STEPS, Filter, LeaseRef, Take, Taken
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands.command import Flow
from windlass.store.commands.take import WaitRegistration
from windlass.store.operation import Operation
from windlass.store.records.record import unpack
from windlass.store.store import Store
from windlass.store.waiting.take import Acceptance, take_flow, take_once

W = b"w" * 16
WAITER = "bell"
HAND_MS = 2_000
LIMIT_S = 30.0
WAKEUP_S = 10.0


def wait_in(
    service: Service, waiter: str = WAITER, *, wants: Filter = ANY_JOB, for_ms: int = 60_000, **how: Any
) -> None:
    """Register like a worker that found nothing and waits for a wakeup."""
    request = Take(queues=("q",), worker=W, wants=wants)
    registration = WaitRegistration(waiter, for_ms, **({"direct_handoff": True} | how))
    found = service.store.run_sync(take_flow(request, ["q"], 0, registration))
    assert not found.taken.jobs


def read_wakeups(service: Service) -> list[bytes]:
    messages: list[bytes] = send_command(service.store, "LRANGE", f"{service.store.root(0)}:bell:{WAITER}", 0, -1)
    return messages


def handed(service: Service) -> Job:
    (message,) = read_wakeups(service)
    assert message[:1] == b"H"
    return unpack(message[1:])


@pytest.fixture(autouse=True)
def known_queue(service: Service) -> None:
    """In a new queue the first job takes the general path."""
    (known,) = put(service, new())
    service.delete([known.id]).wait()


def test_the_job_comes_with_the_wakeup(service: Service) -> None:
    wait_in(service)
    (known,) = put(service, new(payload=Blob(b'{"n":1}'), priority=3))
    job = handed(service)
    assert job == read(service, known.id)
    assert (job.id, job.state, job.worker, job.attempt) == (known.id, State.DISPATCHED, W, 1)
    assert job.payload == Blob(b'{"n":1}')
    assert take(service) == []
    (deadline,) = service.accept([LeaseRef(job.id, job.lease_token)]).wait()
    assert isinstance(deadline, int)
    assert read(service, known.id).state is State.RUNNING
    assert counts(service) == {"running": 1}


def test_one_hand_is_filled_once(service: Service) -> None:
    wait_in(service)
    put(service, new())
    put(service, new())
    assert len(read_wakeups(service)) == 1
    assert counts(service) == {"running": 1, "queued": 1}


def test_no_job_overtakes_another_with_a_wakeup(service: Service) -> None:
    wait_in(service, "another", for_ms=50_000, direct_handoff=False)
    wait_in(service)
    put(service, new())
    put(service, new())
    assert [message[:1] for message in read_wakeups(service)] == [b"Q"]
    assert counts(service) == {"queued": 2}


def test_a_handoff_that_is_not_accepted_goes_back_unspent(service: Service) -> None:
    wait_in(service)
    (known,) = put(service, new())
    late = handed(service)
    pass_ms(service, HAND_MS)
    service.recover().wait()
    job = read(service, known.id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    (refusal,) = service.accept([LeaseRef(late.id, late.lease_token)]).wait()
    assert isinstance(refusal, StaleLease | WrongState)
    (again,) = take(service)
    assert (again.id, again.attempt) == (known.id, 1)


OTHERWISE: dict[str, Callable[[Service], object]] = {
    "the taker was not to be handed anything": lambda service: wait_in(service, direct_handoff=False),
    "others wait in the same process": lambda service: wait_in(service, others_wait=True),
    "it wants other names": lambda service: (
        service.configure("q", {"name_lanes": True}).wait(),
        wait_in(service, wants=Filter(all_but=("other",))),
    ),
    "the queue shares fairly": lambda service: (wait_in(service), service.configure("q", {"fair_share": True}).wait()),
    "an older one waits": lambda service: (
        put(service, new(delay_ms=60_000)),
        wait_in(service),
        pass_ms(service, 60_000 - 1_000),
        wait_in(service),
        pass_ms(service, 1_000),
    ),
    "takers are stopped": lambda service: (
        wait_in(service),
        send_command(service.store, "HSET", service.store.root(0), "stopped", 10**15),
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_otherwise_there_may_be_a_wakeup_but_no_handoff(service: Service, name: str) -> None:
    OTHERWISE[name](service)
    (known,) = put(service, new())
    assert [message for message in read_wakeups(service) if message[:1] == b"H"] == []
    assert read(service, known.id).state is State.QUEUED


@pytest.mark.parametrize(
    "content",
    [{"lane": "l"}, {"unique": "u"}, {"tags": ("t",)}, {"payload": Blob(b"x" * 20_000)}, {"expires_in_ms": 60_000}],
    ids=lambda content: next(iter(content)),
)
def test_what_is_not_plain_and_short_is_taken(service: Service, content: dict[str, Any]) -> None:
    wait_in(service)
    put(service, new(**content))
    assert [message[:1] for message in read_wakeups(service)] == [b"Q"]


def test_a_paused_queue_hands_nothing_over(service: Service) -> None:
    wait_in(service)
    service.pause("q").wait()
    put(service, new())
    assert read_wakeups(service) == []


def test_it_is_what_the_worker_would_have_taken(engine: EngineProcess) -> None:
    """Every key: as after an enqueue and a take by the worker."""
    handing, taking = (Side(engine, frozen_library()) for _ in range(2))
    try:
        ids = [make_id(START_MS, 0, number) for number in range(2)]
        for side in (handing, taking):
            side.ask(lambda service: put(service, new(id=ids[0])))
            side.ask(lambda service: take(service, worker=W, lease_ms=1))
        handing.ask(wait_in)
        contents: dict[str, Any] = {"payload": Blob(b"[7]"), "priority": -2, "lease_ms": 700, "result_ttl_ms": 60_000}
        handing.ask(lambda service: put(service, new(id=ids[1], **contents)))
        taking.ask(lambda service: put(service, new(id=ids[1], **contents)))
        taking.ask(lambda service: take(service, worker=W, accept_ms=HAND_MS))
        passing = (b":waiters:q", b":hand:bell", b":bell:bell")
        found = {key: value for key, value in handing.everything().items() if key not in passing}
        assert found == taking.everything()
    finally:
        handing.close()
        taking.close()


async def _taken(service: Service, **how: Any) -> Job:
    request = Take(queues=("q",), worker=W, wait_ms=60_000, by_hand=True, **how)
    (job,) = (await service.take(request)).jobs
    return job


async def _until_it_waits(service: Service) -> None:
    key = f"{service.store.root(0)}:waiters:q"
    async with asyncio.timeout(LIMIT_S):
        while not await asyncio.to_thread(send_command, service.store, "EXISTS", key):  # noqa: ASYNC110 (of the engine)
            await asyncio.sleep(0.01)


@pytest.fixture
async def taking(service: Service) -> AsyncIterator[asyncio.Task[Job]]:
    """A taker that waits."""
    task = asyncio.create_task(_taken(service))
    await _until_it_waits(service)
    yield task
    task.cancel()
    await asyncio.wait({task})
    await service.store.close()


@pytest.mark.anyio
async def test_a_taker_gets_it_without_a_second_question(service: Service, taking: asyncio.Task[Job]) -> None:
    (known,) = await asyncio.to_thread(put, service, new())
    async with asyncio.timeout(LIMIT_S):
        job = await taking
    assert (job.id, job.state, job.worker) == (known.id, State.DISPATCHED, W)


@pytest.mark.anyio
async def test_a_taker_that_is_gone_gives_it_back_unspent(service: Service, taking: asyncio.Task[Job]) -> None:
    (known,) = put(service, new())  # the event loop is blocked while the handoff is in transit
    taking.cancel()
    async with asyncio.timeout(LIMIT_S):
        job = await asyncio.to_thread(read, service, known.id)
        while job.state is State.DISPATCHED:
            job = await asyncio.to_thread(read, service, known.id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


@pytest.mark.anyio
async def test_a_taker_that_slept_takes_it_again(
    service: Service, taking: asyncio.Task[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came a while ago may be another's by now: it goes back, and is taken if it is still there."""
    monkeypatch.setattr("windlass.store.waiting.take.FRESH_S", -1.0)
    (known,) = await asyncio.to_thread(put, service, new())
    async with asyncio.timeout(LIMIT_S):
        job = await taking
    assert (job.id, job.state, job.attempt) == (known.id, State.RUNNING, 1)


class Receiver:
    """Receiver of a handoff, which accepts it or not."""

    def __init__(self, takes_on: bool, before: Callable[[Job], object] = lambda job: None) -> None:
        self.received: list[Job] = []
        self.acceptance: Acceptance | None = None
        self._takes_on = takes_on
        self._before = before

    def __call__(self, job: Job, accept: Callable[[], Acceptance]) -> bool:
        self.received.append(job)
        if self._takes_on:
            self._before(job)
            self.acceptance = accept()
        return self._takes_on

    async def waits_at(self, service: Service, wants: Filter = ANY_JOB) -> list[Job]:
        """What the take answers."""
        request = Take(queues=("q",), worker=W, wait_ms=60_000, by_hand=True, wants=wants)
        task = asyncio.create_task(_jobs_of(service.take(request, receive=self)))
        await _until_it_waits(service)
        await asyncio.to_thread(put, service, new())
        async with asyncio.timeout(LIMIT_S):
            return await task


async def _jobs_of(asked: Operation[Taken]) -> list[Job]:
    return (await asked).jobs


@pytest.fixture
async def open_service(service: Service) -> AsyncIterator[Service]:
    yield service
    await service.store.close()


@pytest.mark.anyio
async def test_who_receives_it_accepts_it_and_the_take_has_nothing_more(open_service: Service) -> None:
    receiver = Receiver(takes_on=True)
    assert await receiver.waits_at(open_service) == []
    assert receiver.acceptance is not None
    await receiver.acceptance
    (job,) = receiver.received
    found = await asyncio.to_thread(read, open_service, job.id)
    assert (job.state, found.state, found.attempt) == (State.DISPATCHED, State.RUNNING, 1)


@pytest.mark.anyio
async def test_a_taker_that_knows_steps_receives_it_as_well(open_service: Service) -> None:
    receiver = Receiver(takes_on=True)
    assert await receiver.waits_at(open_service, ANY_JOB_WITH_STEPS) == []
    assert receiver.acceptance is not None
    await receiver.acceptance
    assert len(receiver.received) == 1


@pytest.mark.anyio
async def test_a_taker_that_knows_steps_is_woken_by_several_jobs(open_service: Service) -> None:
    request = Take(queues=("q",), most=2, worker=W, wait_ms=60_000, wants=ANY_JOB_WITH_STEPS)
    task = asyncio.create_task(_jobs_of(open_service.take(request)))
    await _until_it_waits(open_service)
    added = await asyncio.to_thread(put, open_service, new(), new())
    async with asyncio.timeout(WAKEUP_S):  # without a wakeup, the recoverer would repeat it later
        assert {job.id for job in await task} == {job.id for job in added}


@pytest.mark.anyio
async def test_what_is_not_received_is_answered_as_ever(open_service: Service) -> None:
    receiver = Receiver(takes_on=False)
    assert await receiver.waits_at(open_service) == receiver.received
    (job,) = receiver.received
    assert job.state is State.DISPATCHED


@pytest.mark.anyio
async def test_what_was_long_on_its_way_is_not_received(open_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.store.waiting.take.FRESH_S", -1.0)
    receiver = Receiver(takes_on=True)
    (job,) = await receiver.waits_at(open_service)
    assert (receiver.received, job.state, job.attempt) == ([], State.RUNNING, 1)


@pytest.mark.anyio
async def test_an_acceptance_that_comes_too_late_is_refused(open_service: Service) -> None:
    def back(job: Job) -> None:
        open_service.release([LeaseRef(job.id, job.lease_token)]).wait()

    receiver = Receiver(takes_on=True, before=back)
    await receiver.waits_at(open_service)
    assert receiver.acceptance is not None
    with pytest.raises(Refusal):
        await receiver.acceptance


@pytest.mark.anyio
async def test_what_comes_while_a_look_is_under_way_is_not_received(
    open_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That look may have brought as many as are wanted."""
    waiter = open_service.store.wakeups.of(0)

    async def taken_late(store: Store, flow: Flow[Any]) -> Any:
        found = await take_once(store, flow)
        await asyncio.to_thread(put, open_service, new())
        while waiter._by_place:  # noqa: ASYNC110 (until it was handed over)
            await asyncio.sleep(0.001)
        return found

    monkeypatch.setattr("windlass.store.waiting.take.take_once", taken_late)
    receiver = Receiver(takes_on=True)
    request = Take(queues=("q",), worker=W, wait_ms=60_000, by_hand=True)
    async with asyncio.timeout(LIMIT_S):
        (job,) = (await open_service.take(request, receive=receiver)).jobs
    assert (receiver.received, job.state) == ([], State.DISPATCHED)
