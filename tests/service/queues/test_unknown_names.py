"""unknown_names and explain: names of queued jobs that no worker of their queue knows."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import BadInput, TooLarge
from windlass.core.explain.reasons import NameUnknown, Next, NoWorker, Unwanted, WorkersBusy
from windlass.core.explain.unknown_names import UNKNOWN_MAX, UnknownName
from windlass.core.operations import Filter, LeaseRef, PushReport, Take, WorkerInfo
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow

WORKER, OTHER = b"w" * 16, b"\x00\xff" * 8
MAILER = WorkerInfo(queues=("q",), slots=2, names=("send_mail", "check_inbox"))
SENTENCE = 'No worker has a task called "send_mial"; did you mean "send_mail"?'
UNKNOWN = UnknownName(name="send_mial", suggestion="send_mail", sentence=SENTENCE)


def unknown(service: Service, queue: str = "q") -> list[UnknownName]:
    service.store.clock_offset_ms += 5_001  # past the cache
    return service.unknown_names(queue).wait()


def wait_at(service: Service, *, waiter: str = "b", worker: bytes = b"", **wants: object) -> None:
    """Register a taker that found nothing and waits. With a worker, it accepts a direct handoff."""
    request = Take(queues=("q",), wants=Filter(**wants), worker=worker, by_hand=bool(worker))  # type: ignore[arg-type]
    found = service.store.run_sync(
        take_flow(request, ["q"], 0, WaitRegistration(waiter, 600_000, direct_handoff=bool(worker)))
    )
    assert found.taken.jobs == []


def kinds(service: Service, job_id: bytes) -> list[type]:
    return [type(reason) for reason in service.explain(job_id).wait().reasons]


# Where the names of jobs are found


@pytest.mark.parametrize("place", [{}, {"lane": "a"}, {"hidden": True}])
@pytest.mark.parametrize("name_lanes", [False, True])
def test_names_of_queued_jobs_are_found_in_every_kind_of_lane(
    service: Service, place: dict[str, object], name_lanes: bool
) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    service.configure("q", {"name_lanes": name_lanes}).wait()
    put(service, new(name="send_mail"), new(name="send_mial", **place), new(name="check_inbox", lane="b"))
    assert unknown(service) == [UNKNOWN]
    assert service.unknown_names("other").wait() == []


def test_known_names_are_not_reported(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    put(service, new(name="send_mail"), new(name="check_inbox"))
    assert unknown(service) == []


def test_jobs_that_are_not_queued_are_not_examined(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    put(service, new(name="send_mial", delay_ms=3_600_000))
    assert unknown(service) == []


def test_many_names_in_name_lanes_are_examined_in_bounds(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    service.configure("q", {"name_lanes": True}).wait()
    put(service, *(new(name=f"n{number % 150:03}", lane=f"lane {number}") for number in range(450)))
    found = unknown(service)
    assert [name.name for name in found] == [f"n{number:03}" for number in range(UNKNOWN_MAX)]


def test_given_names_are_checked_although_no_job_has_them(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    assert service.unknown_among("q", ["send_mail", "send_mial"]).wait() == [UNKNOWN]
    assert service.unknown_among("other", ["send_mial"]).wait() == []


@pytest.mark.parametrize("names", [[], ["n"] * 101, [""], "send_mial", ["x" * 2_000]])
def test_bad_names_are_refused(service: Service, names: object) -> None:
    with pytest.raises((BadInput, TooLarge)):
        service.unknown_among("q", names)  # type: ignore[arg-type]


def test_an_answer_is_cached_for_some_seconds(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    assert unknown(service) == []
    put(service, new(name="send_mial"))
    assert service.unknown_names("q").wait() == []
    assert unknown(service) == [UNKNOWN]


# Who knows names


def test_a_worker_that_gave_no_names_may_know_every_name(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    service.register(OTHER, WorkerInfo(queues=("q",)), beat_ms=60_000).wait()
    (job,) = put(service, new(name="send_mial"))
    assert unknown(service) == []
    assert NameUnknown not in kinds(service, job.id)


def test_registering_again_replaces_the_names(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=60_000).wait()
    put(service, new(name="send_mial"))
    assert unknown(service) == [UNKNOWN]
    service.register(WORKER, WorkerInfo(queues=("q",), names=("send_mial",)), beat_ms=60_000).wait()
    assert unknown(service) == []
    service.register(WORKER, WorkerInfo(queues=("q",)), beat_ms=60_000).wait()
    (worker,) = service.workers().wait()
    assert worker.info.names == ()
    assert unknown(service) == []


def test_the_list_of_workers_has_their_names(service: Service) -> None:
    service.register(WORKER, MAILER).wait()
    (worker,) = service.workers().wait()
    assert worker.info == MAILER


def test_without_a_live_worker_the_missing_worker_is_reported(service: Service) -> None:
    (job,) = put(service, new(name="send_mial"))
    assert unknown(service) == []
    assert kinds(service, job.id) == [NoWorker, Next]
    service.register(WORKER, MAILER, beat_ms=1_000).wait()
    assert kinds(service, job.id) == [NameUnknown]
    assert unknown(service) == []  # its heartbeat is overdue by now
    assert NoWorker in kinds(service, job.id)


@pytest.mark.parametrize("names", [(b"",), tuple(["n"] * 1_001), ("x" * 2_000,), ["n"]])
def test_bad_names_of_workers_are_refused(service: Service, names: object) -> None:
    info = WorkerInfo(queues=("q",), names=names)  # type: ignore[arg-type]
    with pytest.raises((BadInput, TooLarge)):
        service.register(WORKER, info)


# Explain


def test_explain_reports_the_name_and_not_the_position(service: Service) -> None:
    service.register(WORKER, MAILER).wait()
    (job,) = put(service, new(name="send_mial"))
    found = service.explain(job.id).wait()
    (reason,) = found.reasons
    assert isinstance(reason, NameUnknown)
    assert (reason.queue, reason.name, reason.workers, reason.suggestion) == ("q", "send_mial", 1, "send_mail")
    assert reason.sentence == SENTENCE
    assert found.summary == f"The job is queued: n{SENTENCE[1:]}"


def test_busy_workers_that_know_the_name_are_busy(service: Service) -> None:
    service.register(WORKER, MAILER).wait()
    service.register(OTHER, WorkerInfo(queues=("q",), slots=1, names=("other",))).wait()
    (job,) = put(service, new(name="send_mail"))
    (busy,) = [reason for reason in service.explain(job.id).wait().reasons if isinstance(reason, WorkersBusy)]
    assert (busy.workers, busy.slots) == (1, 2)


def test_a_scheduled_job_with_an_unknown_name_is_reported_before_its_time(service: Service) -> None:
    service.register(WORKER, MAILER).wait()
    (job,) = put(service, new(name="send_mial", delay_ms=60_000))
    found = service.explain(job.id).wait()
    assert [type(reason) for reason in found.reasons][1:] == [NameUnknown]
    assert found.summary.endswith("; 1 more reason.")


def test_a_job_behind_others_is_reported_with_its_position(service: Service) -> None:
    service.register(WORKER, MAILER).wait()
    _, job = put(service, new(name="send_mail"), new(name="send_mial"))
    first, second = service.explain(job.id).wait().reasons
    assert isinstance(first, NameUnknown)
    assert second.sentence == '1 job is ahead of it in queue "q".'


def test_an_idle_worker_is_known_by_its_wait(service: Service) -> None:
    """The worker waits for jobs of any name, but its registration says which names it knows."""
    service.register(WORKER, MAILER, beat_ms=600_000).wait()
    (job,) = put(service, new(name="send_mial", delay_ms=60_000))
    wait_at(service, waiter="a", worker=WORKER)
    assert service.stats(["q"]).wait()[0].waiting_takers == 1
    assert NameUnknown in kinds(service, job.id)
    assert service.unknown_among("q", ["send_mial", "send_mail"]).wait() == [UNKNOWN]
    wait_at(service, waiter="b")  # a taker of which nothing is known
    assert NameUnknown not in kinds(service, job.id)
    assert service.unknown_among("q", ["send_mial"]).wait() == []


def test_takers_that_are_not_registered_are_reported_as_before(service: Service) -> None:
    """Such a taker is invisible between two takes: another one may know the name."""
    service.configure("q", {"name_lanes": True}).wait()
    wait_at(service, only=("send_mail",))
    (job,) = put(service, new(name="send_mial"))
    assert kinds(service, job.id) == [Unwanted]
    assert unknown(service) == []


def test_a_worker_that_excludes_the_name_does_not_make_the_queue_healthy(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=600_000).wait()
    (job,) = put(service, new(name="send_mial"))
    service.configure("q", {"name_lanes": True}).wait()
    (taken,) = take(service, worker=WORKER)
    service.release([LeaseRef(taken.id, taken.lease_token)]).wait()
    wait_at(service, all_but=("send_mial",))
    assert kinds(service, job.id) == [NameUnknown]
    assert unknown(service) == [UNKNOWN]


def test_push_workers_that_refused_the_name(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    service.register(WORKER, WorkerInfo(queues=("q",), slots=5, url="http://w.example"), beat_ms=60_000).wait()
    (job,) = put(service, new(name="resize"))
    assert unknown(service) == []
    (pushed,) = service.dispatch().wait().jobs
    report = PushReport(id=pushed.id, token=pushed.lease_token, worker=WORKER, outcome="unknown")
    assert service.pushed([report]).one().wait() == "queued"
    assert [name.sentence for name in unknown(service)] == ['No worker has a task called "resize".']
    assert kinds(service, job.id) == [NameUnknown]
