"""Signals at the bounds of a job: a refused call loses none, and a repeated request is known."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import (
    HOUR_MS,
    pass_time,
    send,
    sleep,
    start,
    state_of,
    steps_of,
    store,
    suspend,
    take_with_steps,
    wait_for,
)
from tests.service.helpers import new, put, read
from windlass.core.durable import SIGNALS_MAX, STEPS_MAX, ReceiveSignal, Rewind, StepStatus, StoreStep, Wait
from windlass.core.errors import MailboxFull, StepsFull
from windlass.core.operations import Finish
from windlass.core.states import State
from windlass.service import Service


def test_a_signal_stays_unread_if_there_is_no_room_for_its_wait(service: Service) -> None:
    job = start(service)
    send(service, job, value=b"7")
    requests = [StoreStep(id=job.id, token=job.lease_token, name=f"s{n}") for n in range(STEPS_MAX)]
    service.store_steps(requests).wait()
    request = ReceiveSignal(id=job.id, token=job.lease_token, name="one too many", signal="approval")
    with pytest.raises(StepsFull):
        service.receive_signals([request]).one().wait()
    assert [signal.value.data for signal in state_of(service, job).signals] == [b"7"]


def test_a_repeated_request_is_known_when_the_mailbox_is_full(service: Service) -> None:
    job = start(service)
    for _ in range(SIGNALS_MAX - 1):
        send(service, job)
    assert send(service, job, request_id=b"r" * 16) == "kept"
    assert send(service, job, request_id=b"r" * 16) == "repeated"
    with pytest.raises(MailboxFull):
        send(service, job, request_id=b"s" * 16)
    suspend(service, job, wait_for())
    assert send(service, job, request_id=b"s" * 16) == "kept"  # the refused request was not remembered


def test_a_late_signal_does_not_replace_a_timeout(service: Service) -> None:
    job = start(service)
    suspend(service, job, wait_for(for_ms=HOUR_MS, name="wait"))
    pass_time(service, HOUR_MS + 1_000)
    (again,) = take_with_steps(service)
    send(service, again)
    request = ReceiveSignal(id=again.id, token=again.lease_token, name="wait", signal="approval")
    step = service.receive_signals([request]).one().wait()
    assert step is not None
    assert step.status is StepStatus.TIMED_OUT
    assert len(state_of(service, again).signals) == 1


def test_a_job_that_is_not_suspended_any_more_has_no_waits(service: Service) -> None:
    for act in (service.requeue, service.cancel):
        job = start(service)
        suspend(service, job, sleep())
        act([job.id]).one().wait()
        state = state_of(service, job)
        assert (state.waits, state.suspended_at_ms) == ((), None)
        service.delete([job.id]).wait()


def test_a_rewound_job_of_the_history_counts_its_bytes(service: Service) -> None:
    service.configure("q", {"history_length": 5}).wait()
    job = start(service)
    store(service, job)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.rewind([Rewind(id=job.id)]).one().wait() == 1
    assert findings(service) == {}


def test_a_retry_creates_other_children_than_those_that_were_cancelled(service: Service) -> None:
    parent = start(service)
    store(service, parent)
    (child,) = put(service, new(name="child", parent=parent.id))
    suspend(service, parent, Wait(name="gather", kind="children", children=(child.id,), for_ms=HOUR_MS))
    service.cancel([parent.id]).one().wait()
    assert read(service, child.id).state is State.CANCELLED
    service.retry([parent.id]).one().wait()
    (again,) = take_with_steps(service)
    assert list(steps_of(service, again)) == ["charge"]
