"""Queues with `lease_renewal` off: a lease is fixed, and no report of its holder moves the deadline."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, read, take
from windlass.core.errors import Refusal, StaleLease
from windlass.core.explain.lease_reasons import Running
from windlass.core.job import Job
from windlass.core.operations import Extended, Finish, LeaseRef, TakenRef, Update, WorkerInfo, WorkerReport
from windlass.core.queue import FIXED_LEASE_PREFIX, FOREVER_MS
from windlass.core.states import State
from windlass.service import Service

QUEUE = FIXED_LEASE_PREFIX + "mail"  # its default
WORKER = b"w" * 16
# Long, so that a busy machine makes nothing late.
LEASE_MS, SILENT_MS = 600_000, 200_000


@pytest.fixture(params=[QUEUE, "q"])
def queue(service: Service, request: pytest.FixtureRequest) -> str:
    """Return a queue with fixed leases: by its name, or by its configuration."""
    changes: dict[str, int | bool | None] = {"lease_ms": LEASE_MS}
    if request.param == "q":
        changes["lease_renewal"] = False
    assert not service.configure(request.param, changes).wait().lease_renewal
    return str(request.param)


def taken(service: Service, queue: str, **options: object) -> Job:
    put(service, new(queue=queue))
    (job,) = take(service, queue, **options)
    return job


def deadline(service: Service, job: Job) -> int | None:
    return read(service, job.id).lease_deadline_at_ms


def report(service: Service, job: Job, kind: str) -> object:
    said = WorkerReport(queue=job.queue, worker=WORKER, info=WorkerInfo(queues=(job.queue,)), kind=kind, id=job.id)  # type: ignore[arg-type]
    (answer,) = service.report_worker([said], silent_ms=SILENT_MS).wait()
    return answer


def test_a_name_decides_the_default(service: Service) -> None:
    assert service.configuration("q").wait().lease_renewal
    assert not service.configuration(QUEUE).wait().lease_renewal
    assert service.configure(QUEUE, {"lease_renewal": True}).wait().lease_renewal
    assert service.configuration(QUEUE).wait().lease_renewal
    assert not service.configure(QUEUE, {"lease_renewal": None}).wait().lease_renewal


def test_a_heartbeat_reports_the_deadline_and_does_not_move_it(service: Service, queue: str) -> None:
    job = taken(service, queue)
    service.store.clock_offset_ms += 100_000
    for lease_ms in (0, 10 * LEASE_MS, FOREVER_MS):
        answer = service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=lease_ms).one().wait()
        assert (answer.deadline_at_ms, answer.is_cancel_requested) == (job.lease_deadline_at_ms, False)
        assert answer.fixed_for_ms is not None
        assert 400_000 < answer.fixed_for_ms <= 500_000
    service.cancel([job.id]).wait()
    assert service.extend([LeaseRef(job.id, 0)]).one().wait().is_cancel_requested
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5)]).wait()
    assert deadline(service, job) == job.lease_deadline_at_ms


def test_past_the_deadline_the_job_returns_although_its_worker_lives(service: Service, queue: str) -> None:
    job = taken(service, queue)
    for _ in range(3):
        service.store.clock_offset_ms += LEASE_MS // 3 + 1
        service.extend([LeaseRef(job.id, job.lease_token)]).wait()
    (again,) = take(service, queue)
    assert (again.id, again.attempt) == (job.id, 2)
    (late,) = service.finish([Finish(job.id, job.lease_token)]).wait()
    assert isinstance(late, StaleLease)
    assert service.extend([LeaseRef(again.id, again.lease_token)]).one().wait().fixed_for_ms


def test_the_lease_that_a_taker_asks_for_starts_normally(service: Service, queue: str) -> None:
    job = taken(service, queue, lease_ms=5_000_000)
    assert (job.lease_deadline_at_ms or 0) - (job.started_at_ms or 0) == 5_000_000
    endless = taken(service, queue, lease_ms=FOREVER_MS)
    assert service.extend([LeaseRef(endless.id, endless.lease_token)]).one().wait() == Extended(None, False)


def test_the_lease_of_a_dispatched_job_starts_when_it_is_accepted(service: Service, queue: str) -> None:
    job = taken(service, queue, accept_ms=100_000)
    assert service.extend([LeaseRef(job.id, 0)]).one().wait() == Extended(job.lease_deadline_at_ms, False)
    service.store.clock_offset_ms += 50_000
    accepted_until = service.accept([LeaseRef(job.id, job.lease_token)]).one().wait() or 0
    assert accepted_until - (job.started_at_ms or 0) >= 50_000 + LEASE_MS
    assert service.extend([LeaseRef(job.id, 0)], lease_ms=FOREVER_MS).one().wait().deadline_at_ms == accepted_until


def test_the_property_applies_to_leases_that_exist(service: Service, queue: str) -> None:
    job = taken(service, queue)
    service.store.clock_offset_ms += 100_000
    service.configure(queue, {"lease_renewal": True}).wait()
    renewed = service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert renewed.fixed_for_ms is None
    assert (renewed.deadline_at_ms or 0) >= (job.lease_deadline_at_ms or 0) + 100_000
    service.configure(queue, {"lease_renewal": False}).wait()
    service.store.clock_offset_ms += 100_000
    fixed = service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert fixed.deadline_at_ms == renewed.deadline_at_ms


def test_other_queues_in_the_same_call_are_renewed(service: Service, queue: str) -> None:
    fixed, plain = taken(service, queue), taken(service, "plain")
    service.store.clock_offset_ms += 10_000
    answers = service.extend([LeaseRef(job.id, job.lease_token) for job in (fixed, plain)]).wait()
    assert [isinstance(answer, Extended) and answer.fixed_for_ms is None for answer in answers] == [False, True]
    assert (deadline(service, plain) or 0) >= (plain.lease_deadline_at_ms or 0) + 10_000


def test_an_overdue_retake_job_stays_takeable(service: Service, queue: str) -> None:
    put(service, new(queue=queue, retake=True))
    (job,) = take(service, queue)
    service.store.clock_offset_ms += LEASE_MS + 1
    service.recover().wait()
    assert service.extend([LeaseRef(job.id, job.lease_token)]).one().wait().fixed_for_ms == 0
    assert [again.id for again in take(service, queue)] == [job.id]


def test_reports_of_a_processors_worker_do_not_move_the_deadline(service: Service, queue: str) -> None:
    put(service, new(queue=queue))
    said = WorkerReport(queue=queue, worker=WORKER, info=WorkerInfo(queues=(queue,)), kind="idle", idle_ms=60_000)
    service.report_worker([said], silent_ms=SILENT_MS).wait()
    (job,) = service.assign([queue], accept_ms=60_000).wait().jobs
    assert report(service, job, "accepted") == "ok"
    held = read(service, job.id)
    # The lease of the queue, not the time for which workers may be silent.
    assert (held.lease_deadline_at_ms or 0) - (held.started_at_ms or 0) == LEASE_MS
    for _ in range(4):
        service.store.clock_offset_ms += SILENT_MS - 50_000
        service.recover().wait()
        report(service, job, "progress")
    assert read(service, job.id).state is State.QUEUED
    for late in ("progress", "finished"):
        assert isinstance(report(service, job, late), StaleLease)
    assert read(service, job.id).state is State.QUEUED
    assert report(service, job, "accepted") == "ok"
    assert (read(service, job.id).state, read(service, job.id).attempt) == (State.RUNNING, 2)


def test_a_silent_worker_loses_the_job_before_its_lease_ends(service: Service, queue: str) -> None:
    put(service, new(queue=queue))
    said = WorkerReport(queue=queue, worker=WORKER, info=WorkerInfo(queues=(queue,)), kind="idle", idle_ms=60_000)
    service.report_worker([said], silent_ms=SILENT_MS).wait()
    (job,) = service.assign([queue], accept_ms=60_000).wait().jobs
    report(service, job, "accepted")
    service.store.clock_offset_ms += SILENT_MS + 1
    service.recover().wait()
    assert read(service, job.id).state is State.QUEUED


@pytest.mark.parametrize("lease_ms", [LEASE_MS // 2, 4 * LEASE_MS, FOREVER_MS])
@pytest.mark.parametrize("rule", ["", "+1 DAY, START OF DAY"])
def test_the_details_of_a_taken_job(service: Service, queue: str, rule: str, lease_ms: int) -> None:
    """A lease by the job's own rule is set after the take; any other fixed lease stays."""
    put(service, new(queue=queue, lease_rule=rule, lease_ms=LEASE_MS))
    (job,) = take(service, queue)
    (found,) = service.taken_details(queue, [TakenRef(job.id, job.lease_token, lease_ms)]).wait()
    assert not isinstance(found, Refusal)
    assert found.deadline_at_ms == (deadline(service, job) or 0)
    assert (found.deadline_at_ms != job.lease_deadline_at_ms) is bool(rule)


def test_a_lease_without_end_is_not_fixed(service: Service, queue: str) -> None:
    put(service, new(queue=queue, lease_ms=FOREVER_MS))
    (job,) = take(service, queue)
    (found,) = service.taken_details(queue, [TakenRef(job.id, job.lease_token, LEASE_MS)]).wait()
    assert not isinstance(found, Refusal)
    assert found.deadline_at_ms == deadline(service, job) == (job.started_at_ms or 0) + LEASE_MS


def test_explain_says_it(service: Service, queue: str) -> None:
    job = taken(service, queue)
    (running,) = [reason for reason in service.explain(job.id).wait().reasons if isinstance(reason, Running)]
    assert running.is_lease_fixed
    assert "its lease is not renewed in this queue: if it has not ended by" in running.describe(job.started_at_ms or 0)
    service.configure(queue, {"lease_renewal": True}).wait()
    (running,) = [reason for reason in service.explain(job.id).wait().reasons if isinstance(reason, Running)]
    assert not running.is_lease_fixed
    assert "; its lease holds until" in running.describe(job.started_at_ms or 0)
