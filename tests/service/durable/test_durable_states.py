"""durable_states: everything that is stored for the durable calls of jobs."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import HOUR_MS, send, sleep, start, state_of, store, suspend
from tests.service.helpers import new, put
from windlass.core.durable import StepKind, StepStatus
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Codec
from windlass.core.operations import Finish
from windlass.service import Service


def test_a_job_without_durable_calls_has_an_empty_state(service: Service) -> None:
    (queued,) = put(service, new())
    state = service.durable_states([queued.id]).one().wait()
    assert (state.steps, state.signals, state.suspensions, state.waits, state.bytes) == ((), (), 0, (), 0)
    assert state.now_ms > 0


def test_the_state_has_steps_in_order_signals_and_waits(service: Service) -> None:
    job = start(service)
    store(service, job, "b", b"1")
    store(service, job, "a", b"2", kind=StepKind.CHILDREN)
    send(service, job, "hello", b"3")
    suspend(service, job, sleep(HOUR_MS))
    state = state_of(service, job)
    found = [(step.name, step.kind, step.status) for step in state.steps]
    assert found == [
        ("b", StepKind.STEP, StepStatus.DONE),
        ("a", StepKind.CHILDREN, StepStatus.DONE),
        ("sleep", StepKind.SLEEP, StepStatus.WAITING),
    ]
    assert [(one.name, one.value) for one in state.signals] == [("hello", Blob(b"3"))]
    assert (state.waits, state.suspensions) == (("sleep",), 1)
    assert state.suspended_at_ms is not None
    assert state.steps[2].wake_at_ms == state.suspended_at_ms + HOUR_MS


def test_names_and_values_of_any_kind_come_back(service: Service) -> None:
    job = start(service)
    store(service, job, "ключ:€", b"\x00\xff")
    (step,) = state_of(service, job).steps
    assert (step.name, step.value) == ("ключ:€", Blob(b"\x00\xff", Codec.JSON))


def test_unknown_and_removed_jobs_are_refused(service: Service) -> None:
    with pytest.raises(UnknownJob):
        service.durable_states([service.store.new_id("q")]).one().wait()
    job = start(service)
    store(service, job)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    with pytest.raises(AlreadyEnded):
        state_of(service, job)
