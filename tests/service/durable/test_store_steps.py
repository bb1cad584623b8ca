"""store_steps: results of steps, under the lease of their job."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import HOUR_MS, start, state_of, steps_of, store, take_with_steps
from tests.service.helpers import counts, new, put, read, take
from windlass.core.durable import STEPS_MAX, StepKind, StepStatus, StoreStep
from windlass.core.errors import AlreadyEnded, StaleLease, StepsFull, UnknownJob
from windlass.core.job import Blob
from windlass.core.operations import Fail, Finish, LeaseRef
from windlass.service import Service


def test_a_stored_step_is_read_back(service: Service) -> None:
    job = start(service)
    store(service, job, "charge", b'{"id":7}', ran_ms=20, tries=2)
    (step,) = state_of(service, job).steps
    assert (step.name, step.kind, step.status) == ("charge", StepKind.STEP, StepStatus.DONE)
    assert (step.value, step.tries, step.number) == (Blob(b'{"id":7}'), 2, 1)
    assert step.ended_at_ms is not None
    assert step.ended_at_ms - step.begun_at_ms == 20
    assert read(service, job.id).is_durable


def test_the_first_outcome_of_a_name_stays(service: Service) -> None:
    job = start(service)
    store(service, job, value=b"1")
    store(service, job, value=b"2")
    store(service, job, value=b"3", status=StepStatus.FAILED)
    assert steps_of(service, job)["charge"].value == Blob(b"1")
    assert len(state_of(service, job).steps) == 1


def test_a_cursor_moves_until_it_is_done(service: Service) -> None:
    job = start(service)
    for value, status in ((b"1", StepStatus.WAITING), (b"2", StepStatus.WAITING), (b"3", StepStatus.DONE)):
        store(service, job, "rows", value, kind=StepKind.CURSOR, status=status)
    store(service, job, "rows", b"4", kind=StepKind.CURSOR, status=StepStatus.WAITING)
    assert steps_of(service, job)["rows"].value == Blob(b"3")


def test_an_old_token_stores_nothing(service: Service) -> None:
    job = start(service, lease_ms=1_000)
    service.store.clock_offset_ms += 2_000
    (again,) = take_with_steps(service)
    with pytest.raises(StaleLease):
        store(service, job, value=b"1")
    assert state_of(service, again).steps == ()
    store(service, again, value=b"2")
    assert steps_of(service, again)["charge"].value == Blob(b"2")


def test_an_ended_or_unknown_job_stores_nothing(service: Service) -> None:
    job = start(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    with pytest.raises(AlreadyEnded):
        store(service, job)
    with pytest.raises(UnknownJob):
        service.store_steps([StoreStep(id=service.store.new_id("q"), token=1, name="x")]).one().wait()


def test_a_step_extends_the_lease(service: Service) -> None:
    job = start(service, lease_ms=10_000)
    service.store.clock_offset_ms += 8_000
    store(service, job)
    service.store.clock_offset_ms += 8_000
    assert take_with_steps(service) == []
    assert read(service, job.id).lease_token == job.lease_token


def test_a_fixed_lease_is_not_extended(service: Service) -> None:
    service.configure("q", {"lease_renewal": False}).wait()
    job = start(service, lease_ms=10_000)
    service.store.clock_offset_ms += 8_000
    store(service, job)
    service.store.clock_offset_ms += 8_000
    assert len(take_with_steps(service)) == 1


def test_steps_survive_a_failed_attempt_and_a_lost_lease(service: Service) -> None:
    job = start(service, lease_ms=1_000)
    store(service, job)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    (second,) = take_with_steps(service)
    assert (second.attempt, list(steps_of(service, second))) == (2, ["charge"])
    service.store.clock_offset_ms += 2_000
    (third,) = take_with_steps(service)
    assert (third.attempt, list(steps_of(service, third))) == (3, ["charge"])


def test_a_job_with_steps_is_given_only_to_takers_that_know_steps(service: Service) -> None:
    job = start(service)
    store(service, job)
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert take(service) == []
    assert counts(service) == {"queued": 1}
    (again,) = take_with_steps(service)
    assert again.id == job.id


def test_steps_count_in_the_bytes_of_the_queue(service: Service) -> None:
    job = start(service)
    before = service.stats(["q"]).wait()[0].bytes
    store(service, job, value=b'"' + b"x" * 5_000 + b'"')
    assert service.stats(["q"]).wait()[0].bytes >= before + 5_000
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0


def test_steps_are_removed_with_their_job(service: Service) -> None:
    job = start(service)
    store(service, job)
    service.delete([job.id], even_leased=True).one().wait()
    assert findings(service) == {}


def test_the_number_of_steps_is_bounded(service: Service) -> None:
    job = start(service)
    requests = [StoreStep(id=job.id, token=job.lease_token, name=f"s{n}") for n in range(STEPS_MAX)]
    service.store_steps(requests).wait()
    with pytest.raises(StepsFull):
        store(service, job, "one too many")
    store(service, job, "s0")  # a known step is no new one
    assert len(state_of(service, job).steps) == STEPS_MAX


def test_a_retried_job_keeps_results_and_drops_failed_steps(service: Service) -> None:
    job = start(service)
    store(service, job, "charge")
    store(service, job, "ship", status=StepStatus.FAILED)
    service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    service.retry([job.id]).one().wait()
    (again,) = take_with_steps(service)
    assert list(steps_of(service, again)) == ["charge"]
    assert state_of(service, again).round == 1


def test_each_occurrence_of_a_repeating_job_starts_empty(service: Service) -> None:
    job = start(service, repeat="FINISHED, +1 HOUR")
    store(service, job)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    service.store.clock_offset_ms += 2 * HOUR_MS
    (again,) = take(service)
    assert again.id == job.id
    assert not again.is_durable
    assert state_of(service, again).steps == ()


def test_an_expiry_does_not_apply_to_a_job_with_steps(service: Service) -> None:
    put(service, new(expires_in_ms=1_000))
    (job,) = take_with_steps(service)
    store(service, job)
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    service.store.clock_offset_ms += 5_000
    (again,) = take_with_steps(service)
    assert again.id == job.id
