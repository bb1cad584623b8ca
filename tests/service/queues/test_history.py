"""history: counts per minute, and the bounded history of finished jobs of a queue."""

from __future__ import annotations

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import leftover_keys, send_command
from windlass.core.job import Blob
from windlass.core.operations import Fail, Finish
from windlass.core.queue import Minute
from windlass.service import Service
from windlass.store.store import Store

MINUTE_MS = 60_000


def to_a_fresh_minute(service: Service) -> int:
    """Moves time to shortly after the next full minute, so that a test does not straddle one."""
    service.store.clock_offset_ms += MINUTE_MS - service.clean().wait().now_ms % MINUTE_MS + 1_000
    return service.clean().wait().now_ms // MINUTE_MS * MINUTE_MS


def run(service: Service, count: int, payload: bytes = b"1") -> list[bytes]:
    put(service, *(new(payload=Blob(payload)) for _ in range(count)))
    jobs = take(service, most=count)
    for job in jobs:
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
        service.store.clock_offset_ms += 1
    return [job.id for job in jobs]


def test_everything_is_counted_in_its_minute(service: Service) -> None:
    at_ms = to_a_fresh_minute(service)
    put(service, *(new() for _ in range(6)))
    service.store.clock_offset_ms += 1_000
    jobs = take(service, most=5)
    service.store.clock_offset_ms += 2_000
    service.finish([Finish(jobs[0].id, jobs[0].lease_token), Finish(jobs[1].id, jobs[1].lease_token)]).wait()
    service.fail([Fail(id=jobs[2].id, token=jobs[2].lease_token)]).wait()
    service.fail([Fail(id=jobs[3].id, token=jobs[3].lease_token, then="retry", delay_ms=MINUTE_MS)]).wait()
    service.cancel([jobs[3].id]).wait()
    (first,) = service.history("q").wait()
    assert first.at_ms == at_ms
    wait_ms, run_ms = first.wait_ms, first.run_ms
    assert 5_000 <= wait_ms < 7_500
    assert 4_000 <= run_ms < 6_000
    assert first == Minute(
        at_ms=at_ms, enqueued=6, taken=5, finished=2, failed=1, retried=1, cancelled=1, wait_ms=wait_ms, run_ms=run_ms,
        waits=first.waits, runs=first.runs,
    )  # fmt: skip
    assert (sum(first.waits), sum(first.runs)) == (5, 2)
    assert 512 <= (first.wait_p50_ms or 0) < 2_048 <= (first.run_p95_ms or 0) + 1_024
    service.store.clock_offset_ms += MINUTE_MS
    service.recover().wait()
    assert [one.recovered for one in service.history("q").wait()] == [0, 1]


def test_minutes_stand_in_order_over_hours_and_queues_are_apart(service: Service) -> None:
    for _ in range(3):
        to_a_fresh_minute(service)
        put(service, new())
        service.store.clock_offset_ms += 3_600_000
    put(service, new(queue="other"))
    minutes = service.history("q", hours=48).wait()
    assert [one.enqueued for one in minutes] == [1, 1, 1]
    assert minutes == sorted(minutes, key=lambda one: one.at_ms)
    assert len(service.history("q", hours=1).wait()) == 1
    assert service.history("unknown").wait() == []


def test_counters_go_by_themselves_after_two_days(service: Service, store: Store) -> None:
    put(service, new())
    (key,) = send_command(store, "KEYS", f"{store.root(0)}:m:*")
    assert 172_000 < send_command(store, "TTL", key) <= 172_800


def test_without_a_history_finished_jobs_disappear(service: Service, store: Store) -> None:
    run(service, 3)
    assert counts(service) == {}
    assert leftover_keys(store) == []


def test_the_history_of_jobs_is_bounded_in_number(service: Service) -> None:
    service.configure("q", {"history_length": 5}).wait()
    ids = run(service, 12)
    assert counts(service) == {"history": 5}
    kept = [job_id for job_id in ids if not isinstance(service.job([job_id]).wait()[0], Exception)]
    assert kept == ids[-5:]
    assert all(service.job([job_id]).one().wait().job.is_history for job_id in kept)


def test_the_history_of_jobs_is_bounded_in_bytes(service: Service) -> None:
    service.configure("q", {"history_length": 1_000, "history_bytes": 10_000}).wait()
    run(service, 12, b"x" * 2_000)
    assert counts(service) == {"history": 4}
    run(service, 1, b"x" * 20_000)
    assert counts(service) == {}


def test_a_smaller_history_is_trimmed_a_little_more_than_grows(service: Service) -> None:
    service.configure("q", {"history_length": 100}).wait()
    run(service, 60)
    service.configure("q", {"history_length": 10}).wait()
    for _ in range(5):
        run(service, 1)
    assert counts(service) == {"history": 10}


def test_a_history_that_was_switched_off_is_swept_away(service: Service, store: Store) -> None:
    service.configure("q", {"history_length": 500}).wait()
    run(service, 260)
    service.configure("q", {"history_length": None}).wait()
    for _ in range(10):
        service.sweep().wait()
    assert counts(service) == {}
    assert leftover_keys(store) == []


def test_the_history_is_invisible_to_unique(service: Service) -> None:
    service.configure("q", {"history_length": 5}).wait()
    (job,) = put(service, new(unique="k", unique_while_kept=True))
    (taken,) = take(service)
    service.finish([Finish(job.id, taken.lease_token)]).one().wait()
    assert counts(service) == {"history": 1}
    assert put(service, new(unique="k"))[0].status == "queued"


def test_kept_results_and_the_history_are_apart(service: Service) -> None:
    service.configure("q", {"history_length": 5}).wait()
    put(service, new(result_ttl_ms=60_000), new())
    for job in take(service, most=2):
        service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    assert counts(service) == {"finished": 1, "history": 1}


def test_many_ends_in_one_call_are_trimmed_at_once(service: Service) -> None:
    service.configure("q", {"history_length": 3}).wait()
    put(service, *(new() for _ in range(500)))
    jobs = take(service, most=500)
    service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
    assert counts(service) == {"history": 3}
