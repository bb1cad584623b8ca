"""dispatch, pushed and redirect: jobs leased to push workers by free slots, and the effect of push outcomes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.support.namespace import leftover_keys
from windlass.core.errors import AlreadyEnded, StaleLease
from windlass.core.job import Job
from windlass.core.operations import Dispatch, Finish, PushOutcome, PushReport, Redirect, WorkerInfo
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
LONG_MS = 2**40


@pytest.fixture
def lanes(service: Service) -> Service:
    service.configure("q", {"name_lanes": True}).wait()
    return service


def register(service: Service, worker: bytes, slots: int = 2, queues: tuple[str, ...] = ("q",)) -> None:
    info = WorkerInfo(name=worker[:1].decode(), slots=slots, queues=queues, url="http://w.example")
    service.register(worker, info, beat_ms=LONG_MS).wait()


def dispatch(service: Service, most: int = 100, accept_ms: int = 5_000) -> list[Job]:
    return service.dispatch(most=most, accept_ms=accept_ms).wait().jobs


def say(service: Service, job: Job, outcome: PushOutcome, lease_ms: int = 0) -> str:
    assert job.worker is not None
    request = PushReport(id=job.id, token=job.lease_token, worker=job.worker, outcome=outcome, lease_ms=lease_ms)
    return service.pushed([request]).one().wait()


def test_jobs_go_only_to_workers_with_a_url_that_serve_the_queue(service: Service) -> None:
    service.register(A, WorkerInfo(queues=("q",), slots=5)).wait()
    register(service, B, queues=("other",))
    put(service, new())
    assert dispatch(service) == []
    register(service, C)
    (job,) = dispatch(service)
    assert (job.worker, job.state) == (C, State.DISPATCHED)


def test_a_worker_gets_no_more_than_it_has_room_for(service: Service) -> None:
    register(service, A, slots=3)
    put(service, *(new() for _ in range(5)))
    first = dispatch(service)
    assert len(first) == 3
    assert dispatch(service) == []
    say(service, first[0], "accepted")
    assert dispatch(service) == []
    service.finish([Finish(first[0].id, first[0].lease_token)]).wait()
    assert len(dispatch(service)) == 1


def test_the_worker_with_most_free_room_comes_first(service: Service) -> None:
    register(service, A, slots=5)
    register(service, B, slots=2)
    put(service, *(new() for _ in range(5)))
    assert [job.worker for job in dispatch(service, most=3)] == [A, A, A]
    assert Counter(job.worker for job in dispatch(service)) == {A: 1, B: 1}


def test_a_pull_taker_and_a_push_worker_share_a_queue(service: Service) -> None:
    register(service, A, slots=1)
    put(service, new(), new())
    pushed, taken = dispatch(service), take(service)
    assert len({job.id for job in pushed + taken}) == 2


def test_an_accepted_job_runs_under_the_lease_it_was_given(service: Service) -> None:
    register(service, A)
    put(service, new())
    (job,) = dispatch(service)
    assert say(service, job, "accepted", lease_ms=60_000) == "running"
    found = read(service, job.id)
    assert found.state is State.RUNNING
    assert found.lease_deadline_at_ms is not None
    assert found.started_at_ms is not None
    assert found.lease_deadline_at_ms - found.started_at_ms == 60_000


def test_a_dispatch_without_an_answer_goes_back_unspent(service: Service) -> None:
    register(service, A)
    put(service, new())
    (job,) = dispatch(service, accept_ms=1_000)
    service.store.clock_offset_ms += 1_000
    service.recover().wait()
    (again,) = dispatch(service)
    assert (again.id, again.attempt) == (job.id, 1)
    assert again.lease_token > job.lease_token


def test_a_result_before_the_acceptance_wins(service: Service) -> None:
    register(service, A)
    put(service, new(result_ttl_ms=60_000))
    (job,) = dispatch(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    with pytest.raises(AlreadyEnded):
        say(service, job, "accepted")
    assert counts(service) == {"finished": 1}


def test_a_late_report_of_a_failed_push_does_not_stop_a_running_job(service: Service) -> None:
    register(service, A)
    put(service, new())
    (job,) = dispatch(service)
    say(service, job, "accepted")
    assert say(service, job, "unreachable") == "running"
    assert read(service, job.id).state is State.RUNNING


# 404


def test_a_name_that_a_worker_does_not_know_is_offered_to_others_unspent(lanes: Service) -> None:
    register(lanes, A, slots=9)
    register(lanes, B, slots=1)
    put(lanes, new(name="rare"))
    (job,) = dispatch(lanes)
    assert job.worker == A
    assert say(lanes, job, "unknown") == "queued"
    (again,) = dispatch(lanes)
    assert (again.worker, again.attempt) == (B, 1)


def test_an_unknown_name_stays_queued_and_blocks_nothing(lanes: Service) -> None:
    register(lanes, A)
    put(lanes, new(name="rare"), new(name="known"))
    for job in dispatch(lanes):
        say(lanes, job, "unknown" if job.name == "rare" else "accepted")
    assert dispatch(lanes) == []
    assert counts(lanes) == {"queued": 1, "running": 1}
    put(lanes, new(name="known"))
    assert [job.name for job in dispatch(lanes)] == ["known"]


def test_a_worker_that_registers_again_is_asked_again(lanes: Service) -> None:
    register(lanes, A)
    put(lanes, new(name="rare"))
    say(lanes, dispatch(lanes)[0], "unknown")
    assert dispatch(lanes) == []
    register(lanes, A)
    assert len(dispatch(lanes)) == 1


def test_without_lanes_for_names_an_unknown_one_waits_a_while(service: Service) -> None:
    register(service, A)
    put(service, new(name="rare"))
    assert say(service, dispatch(service)[0], "unknown") == "scheduled"
    assert dispatch(service) == []
    service.store.clock_offset_ms += 1_000
    assert [job.attempt for job in dispatch(service)] == [1]


# Trouble


def test_a_worker_that_cannot_be_reached_is_left_alone_for_growing_pauses_and_then_lost(service: Service) -> None:
    register(service, A, slots=5)
    put(service, *(new() for _ in range(5)))
    pauses_ms, waited_ms = [], 0
    assert say(service, dispatch(service)[0], "unreachable") == "queued"
    for _ in range(400):  # of 50 ms: twice as long as it may take
        if not service.workers().wait():
            break
        found = service.dispatch().wait()
        if found.jobs:
            assert len(found.jobs) == 1  # a worker that failed last gets a single job
            say(service, found.jobs[0], "unreachable")
            pauses_ms.append(waited_ms)
            waited_ms = 0
        service.store.clock_offset_ms += 50
        waited_ms += 50
        service.recover().wait()
    assert service.workers().wait() == []
    assert pauses_ms[:4] == sorted(pauses_ms[:4])
    assert pauses_ms[3] > 2 * pauses_ms[0]
    assert counts(service) == {"queued": 5}
    assert {job.attempt for job in take(service, most=5)} == {1}


def test_several_failures_of_one_moment_are_one(service: Service) -> None:
    register(service, A, slots=5)
    put(service, *(new() for _ in range(5)))
    for job in dispatch(service):
        say(service, job, "unreachable")
    service.store.clock_offset_ms += 300
    assert len(dispatch(service)) == 1


def test_a_worker_that_answers_again_has_all_its_room(service: Service) -> None:
    register(service, A, slots=3)
    put(service, *(new() for _ in range(4)))
    say(service, dispatch(service)[0], "unreachable")
    service.store.clock_offset_ms += 5_000
    (job,) = [one for one in dispatch(service) if one.worker == A]
    say(service, job, "accepted")
    service.store.clock_offset_ms += 5_000
    service.recover().wait()
    assert len(service.workers().wait()) == 1
    assert len(dispatch(service)) >= 1


def test_a_busy_worker_is_left_alone_and_never_lost(service: Service) -> None:
    register(service, A, slots=5)
    put(service, *(new() for _ in range(5)))
    pauses_ms, waited_ms = [], 0
    for _ in range(400):  # of 50 ms: longer than an unreachable worker stays
        found = service.dispatch().wait()
        if found.jobs:
            assert [say(service, job, "busy") for job in found.jobs] == ["queued"] * len(found.jobs)
            pauses_ms.append(waited_ms)
            waited_ms = 0
        service.store.clock_offset_ms += 50
        waited_ms += 50
        service.recover().wait()
    assert len(service.workers().wait()) == 1
    assert len(pauses_ms) >= 8
    assert [round(pause_ms / 250) for pause_ms in pauses_ms[:7]] == [0, 1, 2, 4, 8, 16, 16]
    assert {job.attempt for job in take(service, most=5)} == {1}


def test_a_busy_worker_may_ask_for_a_pause(service: Service) -> None:
    register(service, A, slots=5)
    put(service, *(new() for _ in range(5)))
    first, second, *_, last = dispatch(service)
    for job, pause_ms in ((first, 30_000), (second, 1_000), (last, 0)):
        request = PushReport(id=job.id, token=job.lease_token, worker=A, outcome="busy", pause_ms=pause_ms)
        assert service.pushed([request]).one().wait() == "queued"
    service.store.clock_offset_ms += 29_900
    assert dispatch(service) == []
    service.store.clock_offset_ms += 200
    (job,) = dispatch(service)  # a single one, to see whether it is still busy
    say(service, job, "accepted")
    assert len(dispatch(service)) == 4


def test_failures_far_apart_do_not_add_up(service: Service) -> None:
    register(service, A)
    put(service, new())
    for _ in range(3):
        say(service, dispatch(service)[0], "unreachable")
        service.store.clock_offset_ms += 60_000
        service.recover().wait()
    assert len(service.workers().wait()) == 1


def test_a_worker_that_is_gone_is_lost_at_once_with_what_it_runs(service: Service) -> None:
    register(service, A, slots=2)
    put(service, new(), new())
    first, second = dispatch(service)
    say(service, first, "accepted")
    say(service, second, "gone")
    assert dispatch(service) == []
    service.recover().wait()
    assert service.workers().wait() == []
    assert [job.attempt for job in take(service, most=2)] == [2, 1]  # what ran has used an attempt


def test_nothing_is_left_of_workers_that_left(lanes: Service, store: Store) -> None:
    register(lanes, A, slots=1)
    put(lanes, new(name="rare"), new())
    say(lanes, dispatch(lanes)[0], "unknown")
    dispatch(lanes)
    lanes.forget(A).wait()
    assert not [key for key in leftover_keys(store) if key.startswith((b"w", b"push"))]


# 400


def _redirected(service: Service, job: Job, *refused_by: bytes) -> Dispatch | str:
    return service.redirect(Redirect(id=job.id, token=job.lease_token, refused_by=refused_by)).wait()


def test_a_refused_job_goes_to_another_worker_in_the_same_attempt(service: Service) -> None:
    register(service, A, slots=5)
    register(service, B)
    put(service, new())
    (job,) = dispatch(service)
    found = _redirected(service, job, A)
    assert isinstance(found, Dispatch)
    (again,) = found.jobs
    assert (again.id, again.worker, again.attempt, again.payload) == (job.id, B, 1, job.payload)
    assert found.workers[B].name == "b"
    with pytest.raises(StaleLease):
        say(service, job, "accepted")
    assert say(service, again, "accepted") == "running"


def test_a_job_that_all_have_refused_is_left_to_the_caller(service: Service) -> None:
    register(service, A)
    register(service, B)
    put(service, new())
    (job,) = dispatch(service)
    assert _redirected(service, job, A, B) == "no_worker"
    assert read(service, job.id).state is State.DISPATCHED


def test_a_refused_job_waits_while_the_others_have_no_room(service: Service) -> None:
    register(service, A, slots=5)
    register(service, B, slots=1)
    put(service, new())
    take(service, worker=B)
    put(service, new())
    (job,) = dispatch(service)
    assert _redirected(service, job, A) == "later"
    assert dispatch(service) == []
    service.store.clock_offset_ms += 1_000
    assert [one.attempt for one in dispatch(service)] == [1]


# Several that push, and waiting


def test_two_who_push_at_once_never_give_a_worker_more_than_its_room(service: Service) -> None:
    register(service, A, slots=7)
    register(service, B, slots=4)
    put(service, *(new() for _ in range(50)))

    async def both() -> list[Job]:
        other = another(service)
        async with service.store, other.store:
            asked = [one.dispatch(most=3) for one in (service, other) for _ in range(10)]
            found = await asyncio.gather(*asked)
        return [job for one in found for job in one.jobs]

    jobs = asyncio.run(both())
    assert Counter(job.worker for job in jobs) == {A: 7, B: 4}
    assert len({job.id for job in jobs}) == 11


@pytest.mark.parametrize("news", ["job", "worker", "room", "known"])
def test_one_who_waits_is_woken_by(lanes: Service, news: str) -> None:
    async def wait() -> list[Job]:
        async with lanes.store, asyncio.timeout(20):
            held = await _before(lanes, news)
            waiting = asyncio.ensure_future(lanes.within(0).dispatch(wait_ms=60_000))  # longer than the test has
            await _until_it_waits(lanes)
            await _after(lanes, news, held)
            return (await waiting).jobs

    assert len(asyncio.run(wait())) == 1


async def _before(service: Service, news: str) -> list[Job]:
    info = WorkerInfo(queues=("q",), slots=1, url="http://w.example")
    if news != "worker":
        await service.register(A, info, beat_ms=LONG_MS)
    if news != "job":
        await service.enqueue([new(name="n")])
    if news == "room":
        held = (await service.dispatch()).jobs
        await service.enqueue([new(name="n")])
        return held
    if news == "known":
        (job,) = (await service.dispatch()).jobs
        await service.pushed([PushReport(id=job.id, token=job.lease_token, worker=A, outcome="unknown")])
    return []


async def _after(service: Service, news: str, held: list[Job]) -> None:
    info = WorkerInfo(queues=("q",), slots=1, url="http://w.example")
    if news == "job":
        await service.enqueue([new(name="n")])
    elif news == "room":
        await service.finish([Finish(held[0].id, held[0].lease_token)])
    else:
        await service.register(A, info, beat_ms=LONG_MS)


async def _until_it_waits(service: Service) -> None:
    from tests.support.namespace import send_command

    key = f"{service.store.root(0)}:waiters:\2push"
    while not await asyncio.to_thread(send_command, service.store, "EXISTS", key):  # noqa: ASYNC110 (the engine's news)
        await asyncio.sleep(0.002)


def test_a_waiting_call_learns_of_the_end_of_a_suspension(service: Service) -> None:
    register(service, A)
    put(service, new())
    say(service, dispatch(service)[0], "unreachable")

    async def wait() -> list[Job]:
        async with service.store, asyncio.timeout(20):
            return (await service.within(0).dispatch(wait_ms=60_000)).jobs

    assert len(asyncio.run(wait())) == 1


def test_a_worker_that_jobs_are_pushed_to_need_not_beat(service: Service) -> None:
    info = WorkerInfo(queues=("q",), url="http://w.example")
    service.register(A, info, beat_ms=60_000).wait()
    for _ in range(5):
        service.store.clock_offset_ms += 45_000
        assert dispatch(service) == []
        service.recover().wait()
    assert len(service.workers().wait()) == 1


def test_the_doctor_knows_what_pushing_leaves(lanes: Service) -> None:
    register(lanes, A, slots=1)
    put(lanes, new(name="a"), new(name="b"))
    (job,) = dispatch(lanes)
    say(lanes, job, "unknown")
    dispatch(lanes)
    codes = {finding.code for finding in lanes.doctor().wait().findings}
    assert codes <= {"no_persistence", "config_forbidden", "calls_by_scripts"}
