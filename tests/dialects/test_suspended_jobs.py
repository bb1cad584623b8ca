"""Suspended jobs in the words of each dialect."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import HOUR_MS, sleep, start, suspend, wait_for
from tests.service.helpers import new, put, read
from windlass.core.durable import Wait
from windlass.core.job import Job
from windlass.core.states import State
from windlass.dialects.bedrock import times
from windlass.dialects.bedrock.record import STATES, fields_of
from windlass.dialects.lightjq.status import is_shown, status_of
from windlass.service import Service


def suspended_on(service: Service, *waits: Wait) -> Job:
    job = start(service)
    assert suspend(service, job, *waits) == "suspended"
    return read(service, job.id)


def test_bedrock_shows_a_sleeping_job_as_queued_with_its_next_run(service: Service) -> None:
    job = suspended_on(service, sleep(HOUR_MS))
    fields = fields_of(job, 7)
    assert (fields["state"], fields["nextRun"]) == ("QUEUED", times.format_milliseconds(job.run_at_ms))


@pytest.mark.parametrize("for_ms", [None, HOUR_MS])
def test_bedrock_shows_a_job_that_waits_for_a_signal_as_paused(service: Service, for_ms: int | None) -> None:
    assert fields_of(suspended_on(service, wait_for(for_ms=for_ms)), 7)["state"] == "PAUSED"


def test_bedrock_shows_a_job_that_waits_for_children_as_paused(service: Service) -> None:
    job = start(service)
    (child,) = put(service, new(name="child", parent=job.id))
    suspend(service, job, Wait(name="run", kind="children", children=(child.id,)))
    assert fields_of(read(service, job.id), 7)["state"] == "PAUSED"


def test_bedrock_has_a_word_for_every_state() -> None:
    assert set(STATES) == set(State)


def test_lightjq_shows_a_suspended_job_as_running(service: Service) -> None:
    job = suspended_on(service, sleep(HOUR_MS))
    assert (is_shown(job), status_of(job)) == (True, "running")
