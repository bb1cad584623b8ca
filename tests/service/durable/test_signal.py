"""signal: values for jobs that wait for them, or will."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import (
    HOUR_MS,
    send,
    sleep,
    start,
    state_of,
    steps_of,
    suspend,
    take_with_steps,
    wait_for,
)
from tests.service.helpers import counts, new, put, take
from windlass.core.durable import SIGNALS_MAX, Signal, StepKind, StepStatus
from windlass.core.errors import AlreadyEnded, MailboxFull, WrongState
from windlass.core.job import Blob
from windlass.core.operations import Fail
from windlass.service import Service


def test_a_signal_wakes_the_job_and_is_its_result(service: Service) -> None:
    job = start(service)
    suspend(service, job, wait_for("approval", HOUR_MS))
    assert send(service, job, "other") == "kept"
    assert counts(service) == {"suspended": 1}
    assert send(service, job, "approval", b'{"by":"ann"}') == "received"
    (again,) = take_with_steps(service)
    step = steps_of(service, again)["signal:approval"]
    assert (step.kind, step.status, step.value) == (StepKind.SIGNAL, StepStatus.DONE, Blob(b'{"by":"ann"}'))
    assert [signal.name for signal in state_of(service, job).signals] == ["other"]


def test_a_signal_that_comes_first_ends_the_wait_at_once(service: Service) -> None:
    job = start(service)
    assert send(service, job, value=b"1") == "kept"
    assert send(service, job, value=b"2") == "kept"
    assert suspend(service, job, wait_for()) == "queued"
    (again,) = take_with_steps(service)
    assert (again.attempt, steps_of(service, again)["signal:approval"].value) == (1, Blob(b"1"))
    assert suspend(service, again, wait_for(name="second")) == "queued"
    assert steps_of(service, again)["second"].value == Blob(b"2")
    assert state_of(service, again).signals == ()


def test_a_signal_to_an_ended_job_is_refused(service: Service) -> None:
    job = start(service)
    service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    with pytest.raises(AlreadyEnded):
        send(service, job)


def test_a_request_id_is_used_once(service: Service) -> None:
    job = start(service)
    suspend(service, job, wait_for())
    request_id = b"r" * 16
    assert send(service, job, request_id=request_id) == "received"
    assert send(service, job, request_id=request_id) == "repeated"
    assert state_of(service, job).signals == ()


def test_a_signal_to_a_job_that_has_not_started_is_kept_and_changes_no_taker(service: Service) -> None:
    (queued,) = put(service, new())
    assert service.signal([Signal(id=queued.id, name="approval", value=Blob(b"1"))]).one().wait() == "kept"
    (job,) = take(service)  # a taker that does not know steps
    assert suspend(service, job, wait_for()) == "queued"


def test_the_number_of_unread_signals_is_bounded(service: Service) -> None:
    job = start(service)
    service.signal([Signal(id=job.id, name="s", value=Blob(b"1"))] * SIGNALS_MAX).wait()
    with pytest.raises(MailboxFull):
        send(service, job, "s")
    suspend(service, job, wait_for("t"))
    assert send(service, job, "t") == "received"  # a wait for it needs no room


def test_signals_of_a_name_are_received_in_their_order(service: Service) -> None:
    job = start(service)
    for value in (b"1", b"2", b"3"):
        send(service, job, value=value)
    found = []
    for name in ("a", "b", "c"):
        suspend(service, job, wait_for(name=name))
        (job,) = take_with_steps(service)
        found.append(steps_of(service, job)[name].value)
    assert found == [Blob(b"1"), Blob(b"2"), Blob(b"3")]


def test_a_group_takes_no_signals(service: Service) -> None:
    member = start(service)
    (group,) = put(service, new(name="group", joins=True, after=(member.id,)))
    with pytest.raises(WrongState):
        service.signal([Signal(id=group.id, name="s", value=Blob(b"1"))]).one().wait()


def test_a_sleeping_job_keeps_a_signal_and_sleeps_on(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(HOUR_MS))
    assert send(service, job) == "kept"
    assert counts(service) == {"suspended": 1}
