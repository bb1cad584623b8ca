"""report_worker: messages of workers about themselves and their jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.helpers import counts, new, put, read, take
from tests.support.namespace import leftover_keys
from windlass.core.durable import StoreStep
from windlass.core.errors import AlreadyEnded, Refusal, StaleLease, UnknownJob, WrongState
from windlass.core.job import Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import LeaseRef, WorkerInfo, WorkerReport, WorkerReportKind
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

A, B = b"a" * 16, b"b" * 16
# Long, so that a busy machine makes nothing late.
TICK_MS, SILENT_MS, ACCEPT_MS = 60_000, 180_000, 180_000


def say(service: Service, says: WorkerReportKind, worker: bytes = A, unique: str = "", **kw: object) -> object:
    given = {
        "queue": "q",
        "worker": worker,
        "info": WorkerInfo(name=worker.decode(), queues=("q",)),
        "kind": says,
        "unique": unique,
        "idle_ms": TICK_MS if says in ("idle", "finished", "failed") else 0,
    }
    said = WorkerReport(**(given | kw))  # type: ignore[arg-type]
    (answer,) = service.report_worker([said], silent_ms=SILENT_MS).wait()
    return answer


def assign(service: Service, **kw: object) -> list[Job]:
    return service.assign(["q"], **({"accept_ms": ACCEPT_MS} | kw)).wait().jobs  # type: ignore[arg-type]


def assigned(service: Service, worker: bytes = A, unique: str = "u") -> Job:
    put(service, new(unique=unique, unique_while_kept=True))
    say(service, "idle", worker)
    (job,) = assign(service)
    assert (job.worker, job.state) == (worker, State.DISPATCHED)
    return job


def pass_ms(service: Service, ms: int) -> None:
    service.store.clock_offset_ms += ms


def test_the_whole_way_of_a_job(service: Service) -> None:
    job = assigned(service)
    assert say(service, "accepted", unique="u") == "ok"
    assert read(service, job.id).state is State.RUNNING
    assert say(service, "progress", unique="u", progress=0.25) == "ok"
    assert read(service, job.id).progress == 0.25
    assert say(service, "finished", unique="u", result=Blob(b'{"x":1}')) == "ok"
    assert counts(service) == {}


def test_a_worker_is_listed_while_it_reports(service: Service) -> None:
    say(service, "idle")
    pass_ms(service, 100_000)
    say(service, "idle", b"before".ljust(16))
    say(service, "idle", age_ms=40_000)
    say(service, "idle", b"after".ljust(16))
    workers = {worker.id: worker for worker in service.workers().wait()}
    worker = workers[A]
    assert (worker.id, worker.info.name, worker.running_count) == (A, "a" * 16, 0)
    before, after = (workers[name.ljust(16)].beat_at_ms for name in (b"before", b"after"))
    assert before <= worker.beat_at_ms + 40_000 <= after
    assert worker.silent_at_ms == worker.beat_at_ms + SILENT_MS
    pass_ms(service, SILENT_MS)
    service.recover().wait()
    assert service.workers().wait() == []


def test_an_older_message_takes_nothing_back(service: Service) -> None:
    say(service, "idle")
    (before,) = service.workers().wait()
    say(service, "idle", age_ms=SILENT_MS - 1)
    (after,) = service.workers().wait()
    assert after.silent_at_ms >= before.silent_at_ms


def test_a_message_of_a_worker_that_is_long_gone_makes_none(service: Service) -> None:
    say(service, "idle", age_ms=SILENT_MS)
    assert service.workers().wait() == []


def test_what_a_silent_worker_runs_goes_back_to_the_front(service: Service) -> None:
    job = assigned(service)
    put(service, new(unique="later"))
    say(service, "accepted", unique="u")
    pass_ms(service, SILENT_MS - 60_000)
    service.recover().wait()
    assert read(service, job.id).state is State.RUNNING
    pass_ms(service, 60_000)
    service.recover().wait()
    assert take(service)[0].id == job.id


def test_progress_keeps_everything_that_the_worker_runs(service: Service) -> None:
    jobs = [assigned(service, unique=unique) for unique in ("u", "v")]
    for unique in ("u", "v"):
        say(service, "accepted", unique=unique)
    for _ in range(3):
        pass_ms(service, SILENT_MS - 60_000)
        say(service, "progress", unique="u", progress=0.5)
        service.recover().wait()
    assert {read(service, job.id).state for job in jobs} == {State.RUNNING}


def test_a_job_whose_worker_says_only_that_it_is_idle_goes_back(service: Service) -> None:
    job = assigned(service)
    say(service, "accepted", unique="u")
    for _ in range(3):
        pass_ms(service, TICK_MS)
        say(service, "idle")
    service.recover().wait()
    assert read(service, job.id).state is State.QUEUED


def test_another_worker_cannot_speak_for_the_holder(service: Service) -> None:
    job = assigned(service)
    for says in ("accepted", "progress", "finished"):
        assert isinstance(say(service, says, B, "u"), StaleLease)
    assert read(service, job.id).state is State.DISPATCHED


def test_unknown_and_ended_jobs_are_refused(service: Service) -> None:
    for says in ("accepted", "progress", "finished"):
        assert isinstance(say(service, says, unique="nobody"), UnknownJob)
    (known,) = put(service, new(queue="other"))
    assert isinstance(say(service, "accepted", id=known.id), UnknownJob)
    assigned(service)
    say(service, "finished", unique="u")
    assert isinstance(say(service, "finished", unique="u"), Refusal)


def test_an_ended_job_that_is_kept_says_so(service: Service) -> None:
    put(service, new(unique="u", unique_while_kept=True, result_ttl_ms=60_000))
    say(service, "idle")
    assign(service)
    say(service, "finished", unique="u")
    assert isinstance(say(service, "accepted", unique="u"), AlreadyEnded)


@pytest.mark.parametrize("says", ["accepted", "progress", "finished"])
def test_a_job_that_went_back_is_the_workers_own_again_when_it_speaks_of_it(
    service: Service, says: WorkerReportKind
) -> None:
    job = assigned(service)
    say(service, "accepted", unique="u")
    pass_ms(service, SILENT_MS)
    service.recover().wait()
    assert say(service, says, unique="u") == "ok"
    if says == "finished":
        assert counts(service) == {}
    else:
        again = read(service, job.id)
        assert (again.state, again.worker) == (State.RUNNING, A)
        assert again.lease_token > job.lease_token


def test_a_job_that_waits_for_its_time_or_a_limit_has_no_worker(service: Service) -> None:
    put(service, new(unique="u", delay_ms=60_000))
    assert isinstance(say(service, "accepted", unique="u"), WrongState)
    service.limit(Limit(name="one", matches=Matcher(queue="q"), running=1)).wait()
    put(service, new(unique="v"), new(unique="w"))
    take(service)
    assert isinstance(say(service, "accepted", unique="w"), WrongState)


def test_a_job_with_steps_is_not_leased_to_a_worker_that_does_not_know_steps(service: Service) -> None:
    put(service, new(unique="u"))
    (job,) = take(service)
    service.store_steps([StoreStep(id=job.id, token=job.lease_token, name="charge")]).one().wait()
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert isinstance(say(service, "accepted", unique="u"), WrongState)
    assert read(service, job.id).state is State.QUEUED


def test_a_job_without_a_unique_key_is_known_by_its_id(service: Service) -> None:
    (known,) = put(service, new())
    say(service, "idle")
    assign(service)
    assert say(service, "accepted", unique="not that", id=known.id) == "ok"
    assert say(service, "finished", unique="not that", id=known.id) == "ok"


def test_a_job_that_repeats_goes_on(service: Service) -> None:
    (known,) = put(service, new(unique="u", repeat="finished, +1 hour"))
    say(service, "idle")
    assign(service)
    assert say(service, "finished", unique="u") == "ok"
    assert read(service, known.id).state is State.SCHEDULED


def test_messages_are_processed_in_their_order(service: Service) -> None:
    put(service, new(unique="u"))
    say(service, "idle")
    assign(service)
    info = WorkerInfo(name="a")
    said = [
        WorkerReport(queue="q", worker=A, info=info, kind=says, unique="u", progress=0.5, idle_ms=idle_ms)
        for says, idle_ms in (("accepted", 0), ("progress", 0), ("finished", TICK_MS), ("progress", 0))
    ]
    answers = service.report_worker(said, silent_ms=SILENT_MS).wait()
    assert answers[:3] == ["ok", "ok", "ok"]
    assert isinstance(answers[3], Refusal)
    put(service, new())
    assert assign(service) == []  # its last report says that it is busy


def test_the_doctor_knows_what_workers_leave(service: Service) -> None:
    assigned(service)
    say(service, "idle", B)
    codes = {finding.code for finding in service.doctor().wait().findings}
    assert codes <= {"no_persistence", "config_forbidden", "calls_by_scripts"}


def test_nothing_stays_behind(service: Service) -> None:
    assigned(service)
    say(service, "accepted", unique="u")
    say(service, "finished", unique="u")
    say(service, "idle", idle_ms=0)
    pass_ms(service, SILENT_MS)
    service.recover().wait()
    assert leftover_keys(service.store) == []


def test_workers_of_every_partition_are_listed(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    queues = [f"q{number}" for number in range(8)]
    for number, queue in enumerate(queues, 1):
        put(service, new(queue=queue, unique="u"))
        info = WorkerInfo(name=queue, queues=(queue,))
        said = WorkerReport(queue=queue, worker=bytes([number] * 16), info=info, kind="idle", idle_ms=TICK_MS)
        service.report_worker([said], silent_ms=SILENT_MS).wait()
    assert {one.queue for one in service.assign(queues, accept_ms=ACCEPT_MS).wait().jobs} == set(queues)
    listed = service.workers().wait()
    assert {(one.info.name, one.running_count) for one in listed} == {(queue, 1) for queue in queues}


# Failed attempts


def test_a_failed_job_without_a_policy_ends(service: Service) -> None:
    job = assigned(service)
    say(service, "accepted", unique="u")
    assert say(service, "failed", unique="u", error=Blob(b'"no"')) == "failed"
    timeline = service.job([job.id]).one().wait()
    assert (timeline.job.state, timeline.attempts[0].reason) == (State.FAILED, "error")
    assert timeline.attempts[0].error == Blob(b'"no"')
    assert timeline.attempts[0].worker == A
    assert counts(service) == {"failed": 1}


def test_a_retry_policy_decides_on_a_failed_attempt(service: Service) -> None:
    put(service, new(unique="u", unique_while_kept=True, retry=Backoff(tries=2, base_ms=1_000, jitter=0.0)))
    for outcome in ("retried", "failed"):
        say(service, "idle")
        (job,) = assign(service)
        assert say(service, "failed", unique="u") == outcome
        pass_ms(service, 1_001)
    assert read(service, job.id).state is State.FAILED


@pytest.mark.parametrize(("then", "outcome"), [("auto", "failed"), ("retry", "retried"), ("final", "failed")])
def test_a_worker_may_decide_on_a_failed_attempt(service: Service, then: str, outcome: str) -> None:
    assigned(service)
    assert say(service, "failed", unique="u", then=then) == outcome


def test_a_failed_attempt_of_a_job_that_must_stop_cancels_it(service: Service) -> None:
    job = assigned(service)
    assert say(service, "accepted", unique="u") == "ok"
    service.cancel([job.id]).wait()
    assert say(service, "progress", unique="u") == "cancel_requested"
    assert say(service, "accepted", unique="u") == "cancel_requested"
    assert say(service, "failed", unique="u") == "cancelled"
    assert counts(service) == {"cancelled": 1}


def test_a_worker_that_failed_a_job_is_idle_and_gets_one_job(service: Service) -> None:
    assigned(service)
    put(service, new(), new())
    say(service, "failed", unique="u")
    assert len(assign(service)) == 1
    say(service, "idle")  # which it wrote before it could know of its next job
    assert assign(service) == []


def test_only_the_holder_fails_a_job(service: Service) -> None:
    job = assigned(service)
    assert isinstance(say(service, "failed", B, "u"), StaleLease)
    assert isinstance(say(service, "failed", unique="nobody"), UnknownJob)
    assert read(service, job.id).state is State.DISPATCHED


def test_many_ends_in_one_call(service: Service) -> None:
    """Finished and failed jobs, repeating jobs and refusals keep their places."""
    put(
        service,
        *(new(unique=f"u{at}", unique_while_kept=True, repeat="FINISHED, +1 DAY" * (at % 2)) for at in range(6)),
    )
    workers = [bytes([at]) * 16 for at in range(1, 7)]
    for worker in workers:
        say(service, "idle", worker, info=WorkerInfo(queues=("q",)))
    holders = {job.unique: job.worker for job in assign(service)}
    reports = [
        WorkerReport(
            queue="q", worker=holders[f"u{at}"] or b"", info=WorkerInfo(), kind="failed" if at >= 3 else "finished",
            unique=f"u{at}", then="retry" if at == 4 else "auto",
        )
        for at in range(6)
    ]  # fmt: skip
    refused = WorkerReport(queue="q", worker=A, info=WorkerInfo(), kind="failed", unique="u9")
    answers = service.report_worker([*reports, refused], silent_ms=SILENT_MS).wait()
    assert answers[:6] == ["ok", "ok", "ok", "failed", "retried", "failed"]
    assert isinstance(answers[6], UnknownJob)
