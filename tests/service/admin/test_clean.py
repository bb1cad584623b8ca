"""clean: kept jobs are removed after their retention, expired jobs fail. sweep: empty queues are removed."""

from __future__ import annotations

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import leftover_keys, list_keys
from windlass.core.job import Blob
from windlass.core.operations import Fail, Filter, Finish
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands.queues import RELANED_PER_CALL
from windlass.store.store import Store

DAY_MS = 86_400_000


def test_nothing_to_clean(service: Service) -> None:
    step = service.clean().wait()
    assert (step.done, step.next_at_ms) == (0, None)


def test_it_says_when_it_wants_to_run_next(service: Service) -> None:
    put(service, new(result_ttl_ms=60_000), new(expires_in_ms=90_000))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    step = service.clean().wait()
    assert step.next_at_ms is not None
    assert 55_000 < step.next_at_ms - step.now_ms <= 60_000
    service.store.clock_offset_ms += 61_000
    step = service.clean().wait()
    assert step.done == 1
    assert step.next_at_ms is not None
    assert 25_000 < step.next_at_ms - step.now_ms <= 29_000


def test_waiting_jobs_that_expired_fail(service: Service) -> None:
    queued, scheduled = put(service, new(expires_in_ms=5_000), new(expires_in_ms=5_000, delay_ms=60_000))
    service.store.clock_offset_ms += 6_000
    assert service.clean().wait().done == 2
    assert counts(service) == {"failed": 2}
    for job in (queued, scheduled):
        after = service.job([job.id]).one().wait()
        assert after.job.state is State.FAILED
        assert [(one.reason, one.started_at_ms) for one in after.attempts] == [("expired", None)]
    assert service.clean().wait().done == 0
    assert service.promote().wait().done == 0


def test_a_job_that_started_in_time_does_not_expire(service: Service) -> None:
    put(service, new(expires_in_ms=5_000))
    (job,) = take(service)
    service.store.clock_offset_ms += 6_000
    assert service.clean().wait().done == 0
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert counts(service) == {}


def test_everything_of_a_failed_job_goes_after_its_retention(service: Service, store: Store) -> None:
    put(service, new(unique="k", unique_while_kept=True, tags=("t",), payload=Blob(b"x" * 5_000)))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, error=Blob(b"1"))]).one().wait()
    assert put(service, new(unique="k"))[0].status == "existing"
    service.store.clock_offset_ms += 14 * DAY_MS + 1_000
    assert service.clean().wait().done == 1
    assert leftover_keys(store) == []
    assert put(service, new(unique="k"))[0].status == "queued"


def test_thousands_go_in_bounded_steps(service: Service, store: Store) -> None:
    jobs = put(service, *(new(expires_in_ms=1_000) for _ in range(500)))
    service.cancel([job.id for job in jobs[:250]]).wait()
    service.store.clock_offset_ms += 2_000
    assert [service.clean().wait().done for _ in range(3)] == [200, 50, 0]
    service.store.clock_offset_ms += 15 * DAY_MS
    assert [service.clean().wait().done for _ in range(4)] == [200, 200, 100, 0]
    assert leftover_keys(store) == []


def test_sweep_forgets_queues_that_hold_nothing(service: Service, store: Store) -> None:
    put(service, new(), new(queue="full"), new(queue="later", delay_ms=60_000), new(queue="failed"))
    service.configure("configured", {"lease_ms": 5_000}).wait()
    for queue in ("q", "failed"):
        (job,) = take(service, queue)
        if queue == "q":
            service.finish([Finish(job.id, job.lease_token)]).one().wait()
        else:
            service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    swept = service.sweep().wait()
    assert (swept.cursor, swept.forgotten) == ("0", 1)
    assert service.queues().wait() == ["configured", "failed", "full", "later"]
    assert b"q:q" not in list_keys(store)
    assert service.configuration("configured").wait().lease_ms == 5_000
    put(service, new())
    assert "q" in service.queues().wait()
    assert service.stats(["q"]).wait()[0].bytes > 0


def test_a_queue_with_all_defaults_again_is_forgotten(service: Service) -> None:
    service.configure("q", {"lease_ms": 5_000}).wait()
    service.configure("q", {"lease_ms": None}).wait()
    assert service.sweep().wait().forgotten == 1
    assert service.queues().wait() == []


def test_sweep_walks_over_many_queues_page_by_page(service: Service) -> None:
    jobs = put(service, *(new(queue=f"q{number}") for number in range(700)))
    service.delete([job.id for job in jobs]).wait()
    cursor, calls, forgotten = "0", 0, 0
    while True:
        swept = service.sweep(cursor).wait()
        calls += 1
        forgotten += swept.forgotten
        cursor = swept.cursor
        if cursor == "0":
            break
    assert calls > 5
    assert forgotten >= 690  # a set that shrinks under a scan may shuffle a few past it: the next walk finds them
    service.sweep().wait()


def test_sweep_finishes_a_division_by_name_that_was_interrupted(service: Service, store: Store) -> None:
    from windlass.store.commands import queues

    put(service, *(new(name="a" if i % 2 else "b") for i in range(RELANED_PER_CALL + 100)))

    def only_configured() -> object:
        return (yield queues.configure("q", {"name_lanes": True}, 0))

    store.run_sync(only_configured())  # type: ignore[arg-type]
    assert take(service, wants=Filter(only=("a",))) == []
    assert service.sweep().wait().to_relane == ["q"]
    for _ in range(10):
        if not service.sweep().wait().to_relane:
            break
    assert service.sweep().wait().to_relane == []
    assert len(take(service, most=1_000, wants=Filter(only=("a",)))) == (RELANED_PER_CALL + 100) // 2
