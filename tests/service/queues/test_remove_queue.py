"""remove_queue: an empty queue goes with everything that belongs to it, and no job is lost."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import another, new, put, take
from tests.support.namespace import dump_keys
from windlass.core.errors import QueueInUse
from windlass.core.operations import Fail, Finish, LeaseRef, Take, WorkerInfo
from windlass.core.queue import Configuration
from windlass.core.stats.task_figures import TaskSums
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow

WORKER = b"w" * 16


def finish_one(service: Service, queue: str = "q") -> None:
    put(service, new(queue))
    (job,) = take(service, queue)
    assert service.finish([Finish(job.id, job.lease_token)]).wait() == [None]


def keys_of(service: Service, queue: str) -> list[str]:
    """Return the keys that name a queue."""
    found = [key.decode(errors="replace") for key in dump_keys(service.store)]
    return [key for key in found if f":{queue}" in key]


def test_an_empty_queue_goes_with_everything_that_belongs_to_it(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("other",)), beat_ms=60_000).wait()
    service.configure("q", {"fair_share": True, "lease_ms": 5_000}).wait()
    service.pause("q", reason="old").wait()
    service.resume("q").wait()
    service.pause("q", lane="a", reason="old").wait()
    service.set_weights("q", {"gold": 3}).wait()
    finish_one(service)
    service.report_tasks(WORKER, 1, [TaskSums(queue="q", name="n", runs={3: 1})]).wait()
    assert service.remove_queue("q").wait() is True
    assert service.queues().wait() == []
    assert keys_of(service, "q") == []
    assert service.configuration("q").wait() == Configuration()
    assert service.pauses("q").wait() == []
    assert service.set_weights("q", {}).wait() == {}
    assert service.history("q").wait() == []
    assert service.histories(["q"]).wait() == {"q": []}
    assert service.queue_presence("q").wait().exists is False
    assert [task.name for task in service.tasks().wait()] == []
    assert_healthy(service)


def test_only_the_queue_of_this_name_is_removed(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("other",)), beat_ms=60_000).wait()
    for queue in ("q", "q2"):
        service.configure(queue, {"lease_ms": 5_000}).wait()
        finish_one(service, queue)
    sums = [TaskSums(queue=queue, name="n", runs={3: 1}) for queue in ("q", "q2")]
    service.report_tasks(WORKER, 1, sums).wait()
    service.remove_queue("q").wait()
    assert service.queues().wait() == ["q2"]
    assert service.configuration("q2").wait().lease_ms == 5_000
    assert service.history("q2").wait()[0].finished == 1
    assert service.task("n").wait().queues == ("q2",)


def test_the_past_of_a_removed_queue_is_not_in_the_cache(service: Service) -> None:
    finish_one(service)
    service.store.clock_offset_ms = 120_000
    assert service.histories(["q"]).wait()["q"] != []
    service.remove_queue("q").wait()
    assert service.histories(["q"]).wait() == {"q": []}


@pytest.mark.parametrize("end", ["queued", "scheduled", "running", "failed", "finished"])
def test_a_queue_that_holds_jobs_is_refused(service: Service, end: str) -> None:
    put(service, new(delay_ms=60_000 if end == "scheduled" else 0, result_ttl_ms=60_000))
    if end in ("running", "failed", "finished"):
        (job,) = take(service)
        if end == "failed":
            service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).wait()
        if end == "finished":
            service.finish([Finish(job.id, job.lease_token)]).wait()
    before = dump_keys(service.store)
    for force in (False, True):
        with pytest.raises(QueueInUse, match=r"The queue q holds 1 job\. `windlass queues purge`"):
            service.remove_queue("q", force=force).wait()
    assert dump_keys(service.store) == before


def test_a_queue_that_a_live_worker_serves_is_removed_only_with_force(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("q",)), beat_ms=60_000).wait()
    service.configure("q", {"lease_ms": 5_000}).wait()
    with pytest.raises(QueueInUse, match="1 live worker serves the queue q"):
        service.remove_queue("q").wait()
    assert service.configuration("q").wait().lease_ms == 5_000
    assert service.remove_queue("q", force=True).wait() is True
    assert service.configuration("q").wait() == Configuration()


def test_of_a_used_and_served_queue_the_jobs_are_named(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("q",)), beat_ms=60_000).wait()
    put(service, new(), new())
    with pytest.raises(QueueInUse, match="holds 2 jobs"):
        service.remove_queue("q").wait()


def test_a_silent_worker_does_not_keep_a_queue(service: Service) -> None:
    service.register(WORKER, WorkerInfo(queues=("q",)), beat_ms=1_000).wait()
    service.configure("q", {"lease_ms": 5_000}).wait()
    service.store.clock_offset_ms = 2_000
    assert service.remove_queue("q").wait() is True


def test_a_queue_that_never_existed_is_not_removed(service: Service) -> None:
    assert service.remove_queue("q").wait() is False


def test_a_waiting_taker_gets_the_next_job(service: Service) -> None:
    service.configure("q", {"lease_ms": 5_000}).wait()
    waiting = take_flow(Take(queues=("q",)), ["q"], 0, WaitRegistration("bell", 60_000))
    assert service.store.run_sync(waiting).taken.jobs == []
    service.remove_queue("q").wait()
    put(service, new())
    woken = dump_keys(service.store)
    assert any(b"bell:bell" in key for key in woken)
    (job,) = take(service)
    assert service.finish([Finish(job.id, job.lease_token)]).wait() == [None]
    assert_healthy(service)


def test_a_job_of_another_process_is_not_lost(service: Service) -> None:
    """Either the removal comes first and the job creates the queue again, or it is refused."""
    producer = another(service)
    producer.store.open_sync()
    try:
        accepted = removed = 0
        for _ in range(50):
            waiting = producer.enqueue([new()]).one().start_sync()
            try:
                service.remove_queue("q").wait()
                removed += 1
            except QueueInUse:
                pass
            waiting()
            accepted += 1
            for job in take(service, most=10):
                assert service.finish([Finish(job.id, job.lease_token)]).wait() == [None]
                accepted -= 1
        assert accepted == 0, "a job was lost"
        assert_healthy(service)
    finally:
        producer.store.close_sync()


def test_a_lease_of_a_removed_queue_cannot_exist(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    with pytest.raises(QueueInUse):
        service.remove_queue("q", force=True).wait()
    assert service.release([LeaseRef(job.id, job.lease_token)]).wait() == ["queued"]
    assert len(take(service)) == 1
