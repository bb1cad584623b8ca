"""open_waits: conditions of suspended jobs, for lists."""

from __future__ import annotations

from tests.service.durable.builders import HOUR_MS, send, sleep, start, store, suspend, wait_for
from windlass.core.durable import OpenWaits, StepKind, Wait
from windlass.core.errors import AlreadyEnded
from windlass.core.job import Blob, Job
from windlass.service import Service

SCHEMA = Blob(b'{"type":"boolean"}')


def open_waits(service: Service, job: Job) -> OpenWaits:
    return service.open_waits([job.id]).one().wait()


def test_returns_the_waits_of_a_suspended_job_and_no_other_step(service: Service) -> None:
    job = start(service)
    store(service, job, "charge", b'"a value"')
    suspend(service, job, wait_for("approval", HOUR_MS), wait_for("refund"), sleep(HOUR_MS))
    found = open_waits(service, job)
    assert [(step.name, step.kind, step.signal) for step in found.steps] == [
        ("signal:approval", StepKind.SIGNAL, "approval"),
        ("signal:refund", StepKind.SIGNAL, "refund"),
        ("sleep", StepKind.SLEEP, ""),
    ]
    assert found.suspended_at_ms is not None
    assert [step.wake_at_ms and step.wake_at_ms - step.begun_at_ms for step in found.steps] == [HOUR_MS, None, HOUR_MS]


def test_leaves_out_the_error_of_a_step_that_is_tried_again(service: Service) -> None:
    job = start(service)
    suspend(service, job, Wait(name="charge", kind="retry", for_ms=HOUR_MS, tries=2, error=Blob(b'"long"')))
    (step,) = open_waits(service, job).steps
    assert (step.name, step.kind, step.tries, step.value) == ("charge", StepKind.STEP, 2, None)


def test_keeps_the_schema_of_a_signal(service: Service) -> None:
    job = start(service)
    suspend(service, job, wait_for("approval", schema=SCHEMA), sleep(HOUR_MS))
    assert [step.schema for step in open_waits(service, job).steps] == [SCHEMA, None]


def test_a_job_that_is_not_suspended_has_none(service: Service) -> None:
    job = start(service)
    assert open_waits(service, job).steps == ()
    suspend(service, job, wait_for("approval"))
    send(service, job, "approval")
    assert (open_waits(service, job).steps, open_waits(service, job).suspended_at_ms) == ((), None)


def test_refuses_a_job_that_is_gone(service: Service) -> None:
    job = start(service)
    service.delete([job.id], even_leased=True).one().wait()
    (answer,) = service.open_waits([job.id]).wait()
    assert isinstance(answer, AlreadyEnded)
