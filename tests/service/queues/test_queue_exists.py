"""queue_presence: whether a queue exists, and which existing queue was probably meant."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.operations import Finish, Take, WorkerInfo
from windlass.core.queue import QueuePresence
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow

WORKER = b"w" * 16
HOUR_MS = 3_600_000


def test_a_misspelt_queue_has_a_suggestion(service: Service) -> None:
    put(service, new("mail"), new("video"))
    found = service.queue_presence("mial").wait()
    assert found == QueuePresence(queue="mial", exists=False, suggestion="mail")
    assert found.sentence == 'Queue "mial" does not exist; did you mean "mail"?'
    assert service.queue_presence("mail").wait() == QueuePresence(queue="mail", exists=True)


def test_without_a_similar_name_there_is_no_suggestion(service: Service) -> None:
    put(service, new("mail"))
    assert service.queue_presence("video").wait().sentence == 'Queue "video" does not exist.'


@pytest.mark.parametrize("how", ["configured", "paused", "served", "waited for"])
def test_a_queue_exists_without_jobs(service: Service, how: str) -> None:
    if how == "configured":
        service.configure("q", {"lease_ms": 5_000}).wait()
    elif how == "paused":
        service.pause("q").wait()
    elif how == "served":
        service.register(WORKER, WorkerInfo(queues=("q",)), beat_ms=60_000).wait()
    else:
        service.store.run_sync(take_flow(Take(queues=("q",)), ["q"], 0, WaitRegistration("bell", 60_000)))
    assert service.queue_presence("q").wait().exists


def test_a_queue_exists_for_two_days_after_its_last_job(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    service.sweep().wait()
    assert service.queues().wait() == []
    for hours, exists in ((47, True), (50, False)):
        service.store.clock_offset_ms = hours * HOUR_MS
        assert service.queue_presence("q").wait().exists is exists


def test_queues_of_live_workers_are_suggested_too(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("mail",)), beat_ms=60_000).wait()
    assert service.queue_presence("mial").wait().suggestion == "mail"
    service.store.clock_offset_ms = 120_000
    assert service.queue_presence("mial").wait().suggestion == ""


def test_only_queues_that_the_caller_may_see_are_suggested(service: Service) -> None:
    put(service, new("mail"), new("mailing"))
    assert service.queue_presence("mial", queues=("mailing*",)).wait().suggestion == ""
    assert service.queue_presence("mailng", queues=("mailing*",)).wait().suggestion == "mailing"
