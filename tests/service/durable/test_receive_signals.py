"""receive_signals: unread signals for waits of running jobs."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import send, start, state_of, steps_of, take_with_steps
from windlass.core.durable import ReceiveSignal, Step, StepStatus
from windlass.core.errors import StaleLease
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail
from windlass.service import Service


def receive(service: Service, job: Job, name: str = "wait", signal: str = "approval") -> Step | None:
    request = ReceiveSignal(id=job.id, token=job.lease_token, name=name, signal=signal)
    return service.receive_signals([request]).one().wait()


def test_the_oldest_signal_of_the_name_becomes_the_result_of_the_wait(service: Service) -> None:
    job = start(service)
    for value in (b"1", b"2"):
        send(service, job, value=value)
    send(service, job, "other", b"3")
    step = receive(service, job)
    assert step is not None
    assert (step.name, step.signal, step.status, step.value) == ("wait", "approval", StepStatus.DONE, Blob(b"1"))
    assert [one.value for one in state_of(service, job).signals] == [Blob(b"2"), Blob(b"3")]


def test_without_a_signal_nothing_is_stored(service: Service) -> None:
    job = start(service)
    assert receive(service, job) is None
    assert state_of(service, job).steps == ()


def test_a_repeated_call_gets_the_same_value_and_takes_no_other(service: Service) -> None:
    job = start(service)
    send(service, job, value=b"1")
    send(service, job, value=b"2")
    assert receive(service, job) == receive(service, job)
    assert len(state_of(service, job).signals) == 1


def test_a_later_attempt_finds_the_received_signal(service: Service) -> None:
    job = start(service)
    send(service, job, value=b"1")
    receive(service, job)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    (again,) = take_with_steps(service)
    assert steps_of(service, again)["wait"].value == Blob(b"1")


def test_an_old_token_receives_nothing(service: Service) -> None:
    job = start(service, lease_ms=1_000)
    send(service, job, value=b"1")
    service.store.clock_offset_ms += 2_000
    take_with_steps(service)
    with pytest.raises(StaleLease):
        receive(service, job)
    assert len(state_of(service, job).signals) == 1
